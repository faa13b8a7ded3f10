// The style sheet of the report pages. The colours are those of Okabe and Ito, which most
// colour-blind readers can distinguish; those of the dark scheme are lighter.
#pragma once

namespace rondo::training {

inline constexpr const char* kPageStyle = R"css(
:root {
  color-scheme: light dark;
  --ground: #ffffff; --panel: #f7f8fa; --ink: #1d2228; --faint: #616b78; --line: #dfe3e8;
  --data: #b35a8c; --forward: #0072b2; --backward: #3f9bd1; --communication: #d55e00;
  --optimizer: #00896b; --other: #8a939e; --inside: #ffffff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #13161a; --panel: #1b1f25; --ink: #e4e8ed; --faint: #98a3b0; --line: #323942;
    --data: #dd8fbb; --forward: #4ba3db; --backward: #8cc9f0; --communication: #f28b45;
    --optimizer: #2fbf9a; --other: #7d8792; --inside: #13161a;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1140px; padding: 28px 24px 40px; background: var(--ground);
  color: var(--ink); font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 24px; margin: 0 0 2px; }
h2 { font-size: 17px; margin: 34px 0 10px; }
p { margin: 0 0 10px; color: var(--faint); }
small { color: var(--faint); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); gap: 12px;
  margin: 20px 0; }
.tiles div { background: var(--panel); border: 1px solid var(--line); border-radius: 8px;
  padding: 10px 14px; }
.tiles b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; }
.tiles span { color: var(--faint); font-size: 13px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); gap: 14px; }
figure, .panel { margin: 0; background: var(--panel); border: 1px solid var(--line);
  border-radius: 8px; padding: 12px 14px; }
.panel { overflow-x: auto; }
.panel + p { margin-top: 12px; }
.panel svg { min-width: 720px; }
figcaption { display: flex; gap: 8px; align-items: baseline; margin-bottom: 6px; }
.legend { margin-left: auto; display: flex; gap: 14px; font-size: 13px; color: var(--faint); }
svg { display: block; width: 100%; height: auto; }
text { fill: var(--ink); font-size: 12px; font-family: inherit; }
text.tick { fill: var(--faint); font-variant-numeric: tabular-nums; }
text.axis { fill: var(--faint); }
text.inside { fill: var(--inside); pointer-events: none; }
line.grid { stroke: var(--line); }
polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
polyline.each { stroke: var(--backward); stroke-width: 1.2; }
polyline.main { stroke: var(--forward); }
polyline.second { stroke: var(--communication); }
circle.main { fill: var(--forward); }
circle.each { fill: var(--backward); }
circle.second { fill: var(--communication); }
rect.data { fill: var(--data); } rect.forward { fill: var(--forward); }
rect.backward { fill: var(--backward); } rect.communication { fill: var(--communication); }
rect.optimizer { fill: var(--optimizer); } rect.other { fill: var(--other); }
.run0 { --own: #0072b2; } .run1 { --own: #d55e00; } .run2 { --own: #00896b; }
.run3 { --own: #b35a8c; } .run4 { --own: #8a6d00; } .run5 { --own: #3f9bd1; }
.run6 { --own: #8a939e; } .run7 { --own: #c23b3b; } .run8 { --own: #5a4fb0; }
.run9 { --own: #4b7f1f; }
polyline[class^=run] { stroke: var(--own); } circle[class^=run] { fill: var(--own); }
i[class^=run] { background: var(--own); }
i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 7px; }
i.data { background: var(--data); } i.forward, i.main { background: var(--forward); }
i.backward, i.each { background: var(--backward); }
i.communication, i.second { background: var(--communication); }
i.optimizer { background: var(--optimizer); } i.other { background: var(--other); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--faint); font-size: 13px; }
td, th { padding: 3px 28px 3px 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
.parts { margin-top: 12px; }
.parts td + td, .parts th + th { text-align: right; }
.runs td, .runs th { padding-right: 13px; }
.runs td:nth-child(n+4), .runs th:nth-child(n+4) { text-align: right; }
.runs td:nth-child(2) { white-space: normal; min-width: 19em; color: var(--faint); }
.settings { columns: 2 380px; column-gap: 40px; margin: 0; }
.settings div { display: flex; justify-content: space-between; gap: 20px; break-inside: avoid;
  border-bottom: 1px solid var(--line); padding: 3px 0; }
.settings dt { color: var(--faint); } .settings dd { margin: 0; overflow-wrap: anywhere; }
.none { margin: 0; }
@media print { body { max-width: none; } figure, .panel { break-inside: avoid; } }
)css";

} // namespace rondo::training
