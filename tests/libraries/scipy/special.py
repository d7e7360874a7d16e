"""Calls of ``scipy.special``."""

from __future__ import annotations

from tests.libraries.calls import Table, integers, normal, positive, uniform

TABLE = Table("scipy.special")
_add = TABLE.add

_add("cbrt cosdg cosm1 cotdg erf erfc erfcx erfinv exp10 exp2 exprel expit i0 i0e i1 i1e j0 j1", uniform("n"))
_add("log_ndtr ndtr sindg sinc tandg zetac gamma gammaln gammasgn loggamma psi rgamma entr", positive("n"))
_add("ellipk ellipkm1 logit ndtri spence exp1 expi k0 k0e k1 k1e y0 y1", uniform("n"))
_add("boxcox boxcox1p inv_boxcox inv_boxcox1p huber pseudo_huber kl_div rel_entr xlogy xlog1py", *[positive("n")] * 2)
_add("betaln binom poch chdtr chdtrc gammainc gammaincc stdtr", *[positive("n")] * 2)
_add("chdtri gammaincinv gammainccinv stdtrit", positive("n"), uniform("n"))
_add("betainc betaincc betaincinv", positive("n"), positive("n"), uniform("n"))
_add("fdtr fdtrc gdtr gdtrc hyp1f1", *[positive("n")] * 3)
_add("fdtri", positive("n"), positive("n"), uniform("n"))
_add("bdtr bdtrc bdtri", uniform("n", 0.0, 4.0), integers("n", 5, 9), uniform("n"))
_add("nbdtr nbdtrc nbdtri", integers("n", 1, 4), integers("n", 5, 9), uniform("n"))
_add("pdtr pdtrc", uniform("n", 0.0, 4.0), positive("n"))
_add("pdtri", integers("n", 1, 4), uniform("n"))
_add("expn yn", integers("n", 1, 4), positive("n"))
_add("lpmv", integers("n", 0, 2), integers("n", 2, 5), uniform("n"))
_add("radian", *[normal("n")] * 3)
_add("polygamma", positive("n"), by=lambda f, xp, x: f(xp.asarray(1), x))
_add("multigammaln", positive("n"), by=lambda f, xp, x: f(x, 2))
_add("zeta", uniform("n", 1.5, 4.0))
_add("log_softmax softmax logsumexp", normal("n 3"), axis=0)
