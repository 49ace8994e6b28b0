// style.cpp - see style.h. The seven categories of memory have Paul Tol's "bright" scheme; what a step does has hues of
// its own, so that no colour means two things: blues compute, orange computes again, violet steps the optimizer, greens
// copy.
#include "decision/report/style.h"

namespace spillway::decision {

const char* const kReportStyle = R"css(
:root{color-scheme:light dark;--paper:#fff;--ink:#1b2026;--soft:#5d6772;--rule:#e2e6ea;--tint:#f5f7f9;--accent:#1f5fbf;
--good:#d9efe3;--good-ink:#11603a;--mid:#fdf0d2;--mid-ink:#7a5200;--bad:#fbe1de;--bad-ink:#96261b;--grid:#e9ecef;--on:#fff;
--m0:#4477aa;--m1:#66ccee;--m2:#228833;--m3:#ee6677;--m4:#ccbb44;--m5:#a9afb5;--m6:#aa3377;
--forward:#8fb8e8;--backward:#3f72b8;--compute:#5b8fd0;--recompute:#e08a2e;--optimizer:#7d6bb5;--out:#14866f;--in:#6fc9b4;
--call:#8a939c;--wait:#d3d8dd;--other:#b9c1c9;--evaluate:#c5d9f0;--allocation:#94705a;--idle:#dce1e6}
@media(prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e4e8ec;--soft:#98a3ae;--rule:#2c333a;--tint:#1b2026;--accent:#7fb0ff;
--good:#153a28;--good-ink:#8fe0b4;--mid:#40320f;--mid-ink:#f2cf7d;--bad:#45201c;--bad-ink:#ffb0a6;--grid:#262c33;--on:#fff;
--m0:#5b8fc4;--m2:#2f9c43;--m5:#8b939b;--m6:#c24f92;
--wait:#3a424a;--other:#59636d;--evaluate:#3c4f66;--call:#7c8791;--idle:#2b3239;--backward:#4a80ca}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-behavior:smooth}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main,header,footer{max-width:1080px;margin:0 auto;padding:0 28px}
header{padding-top:48px}
main{overflow-x:clip}
h1{font-size:30px;line-height:1.2;font-weight:650;letter-spacing:-.015em;margin:0 0 8px;overflow-wrap:anywhere}
h2{font-size:22px;line-height:1.25;font-weight:650;letter-spacing:-.01em;margin:0 0 10px}
h3{font-size:16px;font-weight:650;margin:36px 0 8px}
h4{font-size:14px;font-weight:650;margin:0 0 4px}
p{margin:0 0 12px;max-width:46em}
.eyebrow{font-size:13px;font-weight:600;color:var(--accent);margin:0 0 4px}
.about,.soft{color:var(--soft)}
.small{font-size:14px}
code,pre{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
pre{white-space:pre-wrap}
a{color:var(--accent);text-decoration:none}
a:hover{text-decoration:underline}
nav{margin-top:20px;padding:12px 0;border-top:1px solid var(--rule);border-bottom:1px solid var(--rule);font-size:14px;display:flex;flex-wrap:wrap;gap:4px 18px}
section{padding:44px 0 12px;border-bottom:1px solid var(--rule)}
section:last-child{border-bottom:0}
.lead{font-size:17px}
.n,.num,td,.tick,.label{font-variant-numeric:tabular-nums}
.n{white-space:nowrap}
.none{color:var(--soft)}
.note{background:var(--tint);border-left:3px solid var(--rule);padding:10px 14px;color:var(--soft);max-width:none}
.note b{color:var(--ink)}
.note ul{margin:6px 0 0;padding-left:18px}
.level{border-left:3px solid var(--accent);padding:2px 0 2px 14px;max-width:52em}
.chip{display:inline-block;font-size:13px;font-weight:650;line-height:1.3;padding:2px 9px;border-radius:10px;white-space:nowrap}
.chip.accept{background:var(--good);color:var(--good-ink)}
.chip.tune{background:var(--mid);color:var(--mid-ink)}
.chip.reject{background:var(--bad);color:var(--bad-ink)}
.chip.other{background:var(--tint);color:var(--soft)}
.tag{font-size:12px;font-weight:600;color:var(--accent)}
.chain{list-style:none;margin:24px 0;padding:0;display:grid;grid-template-columns:repeat(4,1fr);gap:0 28px}
.card{border-top:2px solid var(--ink);padding:10px 0 16px;min-width:0}
.card h3{margin:0 0 10px;font-size:15px}
.stage{color:var(--accent);font-variant-numeric:tabular-nums;margin-right:2px}
.card p{margin-bottom:8px;font-size:14px;line-height:1.45}
.card dl{margin:12px 0;font-size:14px}
.card dl div{display:flex;justify-content:space-between;gap:8px;padding:3px 0;border-top:1px solid var(--rule)}
dt{color:var(--soft)}
dd{margin:0;text-align:right}
.answer{overflow-wrap:anywhere}
.facts{margin:12px 0;max-width:60em}
.facts div{display:grid;grid-template-columns:9em 1fr;gap:12px;padding:8px 0;border-top:1px solid var(--rule)}
.facts dd{text-align:left}
.finding{font-size:20px;margin-bottom:4px}
.finding b{font-weight:650}
.claims{list-style:none;padding:0;margin:0 0 12px;display:flex;flex-wrap:wrap;gap:4px 24px}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:0 40px}
.pair>div,.blocks>div,.multiples>div{min-width:0}
.blocks{display:grid;grid-template-columns:repeat(3,1fr);gap:24px}
.multiples{display:grid;grid-template-columns:1fr 1fr;gap:36px 40px;margin-top:16px}
.scroll{overflow-x:auto;margin:8px 0 16px;-webkit-overflow-scrolling:touch}
.scroll:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
table.few{max-width:44em}
table{border-collapse:collapse;font-size:14px;width:100%}
th,td{padding:6px 10px;border-bottom:1px solid var(--rule);text-align:left;vertical-align:baseline}
thead th{font-size:12.5px;line-height:1.35;font-weight:500;color:var(--soft);vertical-align:bottom;border-bottom-color:var(--soft)}
tbody th{font-weight:500;white-space:nowrap}
th:first-child{padding-left:0;position:sticky;left:0;background:var(--paper)}
td:last-child,thead th:last-child{padding-right:2px}
.num{text-align:right;white-space:nowrap}
.wrap,.failed{overflow-wrap:anywhere;white-space:normal}
.failed{color:var(--bad-ink)}
.opname{display:inline-block;max-width:22em;overflow:hidden;text-overflow:ellipsis;vertical-align:bottom}
.meter{padding:6px 0}
.grid75 td{border:2px solid var(--paper);text-align:center;font-size:13px;padding:7px 4px}
.grid75 .chip{padding:0;background:none;color:inherit}
.grid75 th{font-size:12.5px;white-space:nowrap;padding:5px 6px 5px 0}
.grid75 thead th{text-align:center}
.grid75 .corner{color:var(--soft);font-weight:400;text-align:left}
.grid75 tbody th{vertical-align:middle}
.cell.accept{background:var(--good);color:var(--good-ink)}
.cell.tune{background:var(--mid);color:var(--mid-ink)}
.cell.reject{background:var(--bad);color:var(--bad-ink)}
details{border-top:1px solid var(--rule);padding:8px 0}
summary{cursor:pointer;font-size:14px;font-weight:500;overflow-wrap:anywhere}
figure{margin:18px 0 22px;padding-bottom:1px}
figcaption{font-size:14px;color:var(--soft);margin-top:6px;max-width:54em}
.legend{list-style:none;margin:10px 0;padding:0;display:flex;flex-wrap:wrap;gap:4px 18px;font-size:14px}
.key{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:6px;vertical-align:-1px;background:var(--key,transparent)}
.plot{display:block;width:calc(100% - 62px);margin:26px 10px 44px 52px;overflow:visible;font-size:13px}
.plot.flush{width:calc(100% - 8px);margin-left:2px}
.plot text{fill:var(--ink)}
.plot .tick{font-size:12px;fill:var(--soft)}
.plot .axis{font-size:12px;fill:var(--soft)}
.plot .strong{font-weight:650;fill:var(--ink)}
.plot .soft{fill:var(--soft)}
.grid{stroke:var(--grid);stroke-width:1}
.stretch{overflow:hidden}
.m0{--key:var(--m0)}.m1{--key:var(--m1)}.m2{--key:var(--m2)}.m3{--key:var(--m3)}.m4{--key:var(--m4)}.m5{--key:var(--m5)}.m6{--key:var(--m6)}
.t-forward{--key:var(--forward)}.t-backward{--key:var(--backward)}.t-compute{--key:var(--compute)}.t-recompute{--key:var(--recompute)}
.t-optimizer{--key:var(--optimizer)}.t-out{--key:var(--out)}.t-in{--key:var(--in)}.t-call{--key:var(--call)}.t-wait{--key:var(--wait)}
.t-other{--key:var(--other)}.t-evaluate{--key:var(--evaluate)}.t-allocation{--key:var(--allocation)}.t-idle{--key:var(--idle)}
.seg{fill:var(--key);stroke:var(--paper);stroke-width:1}
.area,.slice{fill:var(--key)}
.area{stroke:var(--paper);stroke-width:.6;vector-effect:non-scaling-stroke}
.plot .on{font-size:12px;font-weight:600;fill:var(--on)}
.plot .on-m1,.plot .on-m4,.plot .on-m5,.plot .on-m3,.plot .on-t-in,.plot .on-t-idle,.plot .on-t-recompute{fill:#14171b}
.reserved{fill:none;stroke:var(--ink);stroke-width:1;stroke-dasharray:3 2;vector-effect:non-scaling-stroke}
.peak-line{stroke:var(--ink);stroke-width:1;stroke-opacity:.7}
.peak-dot{fill:var(--ink);stroke:var(--paper);stroke-width:1.5}
.mark{fill:var(--soft);stroke:var(--paper);stroke-width:1.5}
.mark.best,.op{fill:var(--accent)}
.op{fill-opacity:.55;stroke:var(--accent)}
.whisker,.median{stroke:var(--soft);stroke-width:1.5}
.median{stroke:var(--ink);stroke-width:2}
.step-dot{fill:var(--accent);fill-opacity:.55}
.budget,.roof{stroke:var(--accent);stroke-width:1.5}
.budget{stroke-dasharray:5 4}
.feasible{fill:var(--accent);fill-opacity:.07}
.plot .budget-text{font-size:12px;fill:var(--accent)}
.lane-back{fill:var(--tint)}
.tell{fill:transparent}
.tell:hover{stroke:var(--ink)}
.step-end{stroke:var(--ink);stroke-width:1;stroke-dasharray:2 3}
.bar{fill:var(--accent)}
footer{padding-top:20px;padding-bottom:56px;color:var(--soft);font-size:13px}
@media(max-width:980px){.chain{grid-template-columns:1fr 1fr}.blocks{grid-template-columns:1fr}}
@media(max-width:720px){main,header,footer{padding-left:16px;padding-right:16px}header{padding-top:28px}h1{font-size:24px}
.chain,.multiples,.pair{grid-template-columns:1fr}.minor,.wide{display:none}.facts div{grid-template-columns:1fr;gap:0}
.plot{width:calc(100% - 48px);margin-left:42px;margin-right:6px}.plot.flush{width:calc(100% - 4px);margin-left:2px}section{padding-top:32px}th,td{padding-left:6px;padding-right:6px}.opname{max-width:13em}}
@media print{nav{display:none}section{break-inside:avoid-page}}
)css";

}  // namespace spillway::decision
