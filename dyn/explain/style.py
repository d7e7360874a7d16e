"""The style sheet of the HTML explanation.

It is in every page that is made, since a page must load nothing. Colours are variables: light ones, dark ones where the
reader's system asks for them, and either where JupyterLab says which theme it has. The page brings its own background,
so that it can be read whichever of the two is right.
"""

from __future__ import annotations

_LIGHT = (
    "--bg:#fff;--fg:#1c2024;--dim:#60646c;--line:#d9d9e0;--soft:#f6f7f9;--chip:#fff;--arrow:#70767f;"
    "--loop:#0b68cb;--loop-bg:#e6f1fd;--stitch:#7c3aba;--stitch-bg:#f3eafb;--contract:#b45309;--contract-bg:#fdf0dd;"
    "--copy:#5b626b;--copy-bg:#eceef1;--param:#15803d;--param-bg:#e8f6ec;--result:#0f766e;--result-bg:#e2f5f3"
)
_DARK = (
    "--bg:#15181c;--fg:#e6e8eb;--dim:#9aa1ab;--line:#363b43;--soft:#1d2126;--chip:#15181c;--arrow:#8b929c;"
    "--loop:#6fb3ff;--loop-bg:#17314f;--stitch:#c99bf5;--stitch-bg:#38244c;--contract:#f2b35e;--contract-bg:#46310f;"
    "--copy:#a9b0ba;--copy-bg:#2b3037;--param:#69d38f;--param-bg:#163524;--result:#5fd3c6;--result-bg:#123733"
)

_RULES = """
.dyn-explain{background:var(--bg);color:var(--fg);border:1px solid var(--line);border-radius:10px;padding:14px 18px;
font:14px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;color-scheme:light dark}
.dyn-explain *{box-sizing:border-box}
.dyn-explain .dyn-name{font-size:18px;font-weight:650;margin-right:10px}
.dyn-explain .dyn-count{display:inline-block;border:1px solid var(--line);border-radius:99px;padding:0 9px;
margin-right:5px;font-size:12px;color:var(--dim)}
.dyn-explain details{margin:8px 0}
.dyn-explain summary{cursor:pointer;font-weight:600}
.dyn-explain summary small{font-weight:400;font-size:12.5px;color:var(--dim);margin-left:6px}
.dyn-explain .dyn-version{border-top:1px solid var(--line);padding-top:8px}
.dyn-explain .dyn-scroll{overflow:auto;max-height:820px;border:1px solid var(--line);border-radius:8px;margin-top:6px}
.dyn-explain .dyn-wide{overflow-x:auto}
.dyn-explain.dyn-explain table.dyn-table{border-collapse:collapse;margin:6px 0 2px;font-size:13px;
background:none;color:inherit}
.dyn-explain.dyn-explain table.dyn-table th,
.dyn-explain.dyn-explain table.dyn-table td{text-align:left;vertical-align:top;
padding:3px 16px 3px 0;border:0;border-bottom:1px solid var(--line);background:none;color:inherit;white-space:normal}
.dyn-explain.dyn-explain table.dyn-table th{font-weight:500;color:var(--dim);font-size:12px}
.dyn-explain.dyn-explain code,
.dyn-explain.dyn-explain pre{font:12px/1.45 ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;
background:none;color:inherit;padding:0;border:0}
.dyn-explain.dyn-explain.dyn-explain pre{background:var(--soft);
border:1px solid var(--line);border-radius:8px;padding:10px 12px;
margin:6px 0;overflow:auto;max-height:480px;white-space:pre}
@media (max-width:46em){.dyn-explain.dyn-explain table.dyn-table td:nth-child(n+3){min-width:9em}}
.dyn-explain .dyn-quiet{color:var(--dim)}
.dyn-explain .dyn-none{color:var(--dim);margin:2px 0;font-size:13px}
.dyn-explain .dyn-tag{display:inline-block;border-radius:4px;padding:0 7px;font-size:12px;font-weight:600}
.dyn-explain .dyn-bar{display:inline-block;height:9px;border-radius:2px;background:var(--loop);min-width:1px}
.dyn-picture{display:block;margin:0 auto;background:var(--bg)}
.dyn-picture text{font:11px ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;fill:var(--fg)}
.dyn-picture .dyn-title{font:600 12.5px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif}
.dyn-picture .dyn-kind{font:600 11.5px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;
fill:var(--k)}
.dyn-picture .dyn-type{fill:var(--dim)}
.dyn-picture .dyn-reads{fill:var(--param)}
.dyn-picture .dyn-more{fill:var(--dim);font-style:italic}
.dyn-picture .dyn-stored{font-weight:700;fill:var(--fg)}
.dyn-picture .dyn-body{fill:var(--bg);stroke:var(--k);stroke-width:1.2}
.dyn-picture .dyn-parameter .dyn-body,.dyn-picture .dyn-result .dyn-body{fill:var(--kb)}
.dyn-picture .dyn-band{fill:var(--kb)}
.dyn-picture .dyn-chip{fill:var(--chip);stroke:var(--k);stroke-width:1.2}
.dyn-picture .dyn-chip-text{fill:var(--k)}
.dyn-picture .dyn-arrow path{fill:none;stroke:var(--arrow);stroke-width:1.4}
.dyn-picture .dyn-arrow polygon{fill:var(--arrow)}
.dyn-picture .dyn-arrow:hover path{stroke:var(--fg);stroke-width:2.2}
.dyn-picture .dyn-back path{stroke-dasharray:5 4}
.dyn-picture .dyn-frame{fill:var(--soft);stroke:var(--dim);stroke-width:1;stroke-dasharray:2 3}
.dyn-picture .dyn-layer{font:600 12.5px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;
fill:var(--dim)}
"""


def style() -> str:
    """The style sheet, in its element."""
    kinds = "".join(
        f".dyn-explain .dyn-{kind}{{--k:var(--{name});--kb:var(--{name}-bg)}}"
        for kind, name in [
            ("loop", "loop"), ("stitch", "stitch"), ("contract", "contract"), ("copy", "copy"), ("library", "result"),
            ("parameter", "param"), ("result", "result"),
        ]
    )  # fmt: skip
    # A kind that has no colour of its own yet looks like a copy.
    rest = ".dyn-explain .dyn-box,.dyn-explain .dyn-tag{--k:var(--copy);--kb:var(--copy-bg)}"
    tags = ".dyn-explain .dyn-tag{color:var(--k);background:var(--kb)}"
    themes = (
        f".dyn-explain{{{_LIGHT}}}"
        f"@media (prefers-color-scheme:dark){{.dyn-explain{{{_DARK}}}}}"
        f'body[data-jp-theme-light="true"] .dyn-explain{{{_LIGHT};color-scheme:light}}'
        f'body[data-jp-theme-light="false"] .dyn-explain{{{_DARK};color-scheme:dark}}'
    )
    return f"<style>{themes}{rest}{kinds}{tags}{_RULES.replace(chr(10), '')}</style>"
