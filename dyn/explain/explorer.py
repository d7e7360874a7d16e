"""An HTML page of one compile: source lines, DHLO, kernels, LLVM or C++, and assembly, linked line to line.

``dump`` writes them into the folder that the setting ``dump`` names, with an ``index.html`` of all. What belongs to a
source line has its colour; pointing at anything marks what it came from and what became of it, and a click brings that
into view. A page loads nothing.
"""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from dyn.backends.base import Source
from dyn.frozen import record
from dyn.ir.core import Op
from dyn.ir.printer import print_function
from dyn.pipeline import Optimized
from dyn.schedule.kernel_text import kernel_name, kernel_text
from dyn.schedule.launch import walk_launches
from dyn.source import Loc
from dyn.stitch.groups import Group

#: Pages of the folder are told from other files by this ending.
ENDING = ".compile.html"
#: Lines of source shown before and after those that the program came from.
_AROUND = 2
#: An op's line in the text of a function ends with its place.
_PLACE = re.compile(r'  @ "?(?P<place>[^"]*)"?$')


@record()
class ListingBlock:
    """Some lines of one column: their text, a heading, and the source lines that they came from."""

    text: str
    places: tuple[str, ...]
    heading: str = ""


def program_page(
    title: str, optimized: Optimized, sources: Sequence[Source], assembly: Callable[[Source], str]
) -> str:  # fmt: skip
    """The page of a program."""
    return page(title, columns(optimized, sources, assembly))


def index_head() -> str:
    """Beginning of the index. A list follows, to which each program adds a row: that the list ends is left open,
    as HTML allows."""
    head = "<header><b>Programs</b><span>compiled with DYN_DUMP</span></header><ul>"
    return _document("Programs", head).removesuffix(_END) + "\n"


# ---- what is shown ---------------------------------------------------------------------------------------------------


def columns(
    optimized: Optimized, sources: Sequence[Source], assembly: Callable[[Source], str]
) -> dict[str, list[ListingBlock]]:
    """The columns of a page, from the user's lines to the machine's."""
    locs: dict[str, Loc] = {}
    dhlo: list[ListingBlock] = []
    for op in _all_ops(optimized.function.ops):
        locs.setdefault(str(op.loc), op.loc)
    for line in print_function(optimized.function).splitlines():
        found = _PLACE.search(line)
        dhlo.append(ListingBlock(line[: found.start()] if found else line, (found["place"],) if found else ()))
    kernels: list[ListingBlock] = []
    places: dict[str, tuple[str, ...]] = {}
    headings: dict[str, str] = {}
    for launch in walk_launches(optimized.launches):
        of_group = tuple(dict.fromkeys(str(op.loc) for op in launch.group.ops if op.loc.line))
        for variant in launch.variants:
            name = kernel_name(variant.kernel)
            known = places.get(name, ())
            if name not in places:
                headings[name] = _heading(launch.group, variant.kernel.note)
                kernels.append(ListingBlock(kernel_text(variant.kernel), (name,), headings[name]))
            places[name] = tuple(dict.fromkeys((*known, *of_group)))
    kernels = [ListingBlock(block.text, places[block.places[0]], block.heading) for block in kernels]
    rendered = [source for source in sources if source.symbols[0] in places]
    others = [source for source in sources if source.symbols[0] not in places]
    code = [_block(source.text, source, places, headings) for source in (*rendered, *others)]
    machine = [_block(assembly(source), source, places, headings) for source in (*rendered, *others)]
    return {"your lines": _source(locs.values()), "DHLO": dhlo, "kernels": kernels, "code": code, "assembly": machine}


def _heading(group: Group, note: str) -> str:
    """``contract dot_general_add: packed 6x64``"""
    own = f"{group.kind.value} {group.name}"
    return note if note.startswith(own) else f"{own}: {note}"


def _all_ops(ops: Iterable[Op]) -> Iterable[Op]:
    for op in ops:
        yield op
        for region in op.regions:
            yield from _all_ops(region.ops)


def _block(
    text: str, source: Source, places: Mapping[str, tuple[str, ...]], headings: Mapping[str, str]
) -> ListingBlock:
    symbol = source.symbols[0]
    return ListingBlock(text, places.get(symbol, ()), headings.get(symbol, symbol))


def _source(locs: Iterable[Loc]) -> list[ListingBlock]:
    """The user's lines, with some around them, a block each."""
    lines: dict[str, set[int]] = {}
    names: dict[tuple[str, int], str] = {}
    for loc in locs:
        if loc.line:
            lines.setdefault(loc.file, set()).add(loc.line)
            names[loc.file, loc.line] = str(loc)
    blocks: list[ListingBlock] = []
    for file, wanted in lines.items():
        shown = sorted({n for line in wanted for n in range(line - _AROUND, line + _AROUND + 1) if n > 0})
        before = 0
        for number in shown:
            text = linecache.getline(file, number).rstrip("\n")
            if not text and number not in wanted:
                continue
            heading = os.path.basename(file) if before == 0 else "…" if number > before + 1 else ""
            place = (names[file, number],) if number in wanted else ()
            blocks.append(ListingBlock(f"{number:4}  {text}", place, heading))
            before = number
    return blocks


# ---- HTML ------------------------------------------------------------------------------------------------------------

_STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1c2024;--dim:#60646c;--line:#d9d9e0;--soft:#f6f7f9;--s:90%;--l:92%}
@media (prefers-color-scheme:dark){:root{--bg:#15181c;--fg:#e6e8eb;--dim:#9aa1ab;--line:#363b43;--soft:#1d2126;
--s:35%;--l:24%}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:14px/1.5 system-ui,sans-serif;height:100vh;display:flex;
flex-direction:column}
header{padding:10px 16px;border-bottom:1px solid var(--line)} header b{font-size:17px;margin-right:12px}
header span{color:var(--dim)}
main{flex:1;display:flex;overflow-x:auto;min-height:0}
section{flex:1 0 24em;display:flex;flex-direction:column;border-right:1px solid var(--line);min-width:0}
h2{font-size:13px;margin:0;padding:6px 10px;border-bottom:1px solid var(--line);background:var(--soft)}
.column{overflow:auto;flex:1;padding-bottom:40vh}
.heading{font-size:12px;color:var(--dim);padding:8px 10px 2px}
pre{margin:0;padding:0 10px;font:12px/1.5 ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;
border-left:4px solid transparent}
pre[data-p]{background:hsl(var(--h) var(--s) var(--l));border-left-color:hsl(var(--h) 60% 55%);cursor:pointer}
.some pre[data-p]:not(.on){background:none;opacity:.55}
ul{font-size:15px;line-height:2}
@media (max-width:700px){main{flex-direction:column;overflow:auto}section{flex:none}.column{max-height:60vh;
padding-bottom:0}}
"""

_SCRIPT = """
const all = [...document.querySelectorAll('pre[data-p]')];
const places = new Map(all.map(e => [e, e.dataset.p.split('|')]));
let pinned = null;
function related(e) {
  const own = new Set(places.get(e));
  return all.filter(o => places.get(o).some(p => own.has(p)));
}
function mark(e) {
  document.body.classList.toggle('some', e !== null);
  all.forEach(o => o.classList.remove('on'));
  if (e) related(e).forEach(o => o.classList.add('on'));
}
all.forEach(e => {
  e.addEventListener('mouseenter', () => { if (!pinned) mark(e); });
  e.addEventListener('mouseleave', () => { if (!pinned) mark(null); });
  e.addEventListener('click', event => {
    event.stopPropagation();
    pinned = pinned === e ? null : e;
    mark(pinned);
    if (!pinned) return;
    const seen = new Set([e.closest('.column')]);
    related(e).forEach(o => {
      const column = o.closest('.column');
      if (!seen.has(column)) { seen.add(column); column.scrollTo({top: o.offsetTop - column.offsetTop - 40}); }
    });
  });
});
document.addEventListener('click', () => { pinned = null; mark(null); });
"""


def page(title: str, shown: Mapping[str, Sequence[ListingBlock]]) -> str:
    """The page of a compile: a column a stage."""
    hues: dict[str, int] = {}
    for blocks in shown.values():
        for block in blocks:
            for place in block.places:
                hues.setdefault(place, 137 * len(hues) % 360)  # the golden angle: neighbours differ most
    parts: list[str] = []
    for heading, blocks in shown.items():
        body = "".join(_shown(block, hues) for block in blocks)
        parts.append(f'<section><h2>{escape(heading)}</h2><div class="column">{body}</div></section>')
    lead = "<span>Point at a line to see what it came from and what became of it; click to bring that into view.</span>"
    head = f'<header><b>{escape(title)}</b>{lead} <a href="index.html">all programs</a></header>'
    return _document(title, f"{head}<main>{''.join(parts)}</main><script>{_SCRIPT}</script>")


def _shown(block: ListingBlock, hues: Mapping[str, int]) -> str:
    heading = f'<div class="heading">{escape(block.heading)}</div>' if block.heading else ""
    mark = ""
    if block.places:
        mark = f' data-p="{escape("|".join(block.places))}" style="--h:{hues[block.places[0]]}"'
    return f"{heading}<pre{mark}>{escape(block.text) or ' '}</pre>"


#: How documents end.
_END = "</body></html>"


def _document(title: str, body: str) -> str:
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{body}{_END}"
    )
