/* What the page shows: controls, answers, curves, pictures. The answers are table.js's. */
(function () {
  "use strict";

  const data = JSON.parse(document.getElementById("data").textContent);
  const { Table, place, value, chance, most, times, count } = window.koriskTable;
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "star"];
  const SIGNS = "●■◆▲✚✖★"; // the same, in a legend
  const CROWD = 8; // models beyond which only those that are asked about have bands
  const QUIET = 600; // milliseconds until an answer is spoken
  const DRAWN = 64; // times the pilot, up to which curves are drawn,
  const FARTHEST = 16; // and up to which bands are drawn whole
  const NEAR = 1.05; // factor in N and in the error within which a curve passes through a mark
  const SURE = 0.95; // chance to reach a target from which on a number of samples needs no "if"

  const get = (id) => document.getElementById(id);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const state = { group: data.start, model: 0, other: -1, target: NaN, answer: null, versus: null };
  const opened = new Map(); // tables, opened when first asked for

  // --- Small helpers ---------------------------------------------------------------------------

  function element(name, text, attributes) {
    const made = document.createElement(name);
    if (text !== undefined && text !== null) made.textContent = text;
    for (const [key, content] of Object.entries(attributes || {})) made.setAttribute(key, content);
    return made;
  }

  function fill(select, names, chosen) {
    const option = ([key, text]) => element("option", text, { value: String(key) });
    select.replaceChildren(...names.map(option));
    select.value = String(chosen);
  }

  function facts(list, pairs) {
    const rows = pairs.filter(([, text]) => text).map(([name, text]) => {
      const row = element("div");
      row.append(element("dt", name), element("dd", text));
      return row;
    });
    list.replaceChildren(...rows);
  }

  /* Calls to the result run once a frame, however many there are. */
  function calm(act) {
    let frame = 0;
    return () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => act());
    };
  }

  function parsed(text) {
    const plain = text.trim().replace(/\s/g, "");
    // A comma alone is a decimal one; with three digits behind each, it groups them.
    const grouped = /^\d{1,3}(,\d{3})+(\.\d*)?$/.test(plain) && !/^0,/.test(plain);
    const dotted = grouped ? plain.replace(/,/g, "") : plain.replace(",", ".");
    const decimal = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
    return decimal.test(dotted) ? Number(dotted) : NaN;
  }

  // --- What was asked --------------------------------------------------------------------------

  const group = () => data.groups[state.group];
  const model = (index) => group().models[index];

  function table(index) {
    const key = `${state.group}/${index}`;
    if (!opened.has(key)) opened.set(key, new Table(model(index).planner));
    return opened.get(key);
  }

  const logarithmic = () => model(0).planner.unit.logarithmic;

  /* The slider stops at targets of the table, whose answers are exact. */
  const stops = () => table(state.model).stops.map((at) => table(state.model).targets[at]);

  function positionOf(target) {
    const { unit } = table(state.model);
    const depth = (each) => Math.log(unit.toError(each));
    const away = stops().map((each) => Math.abs(depth(each) - depth(target)));
    return Math.max(away.indexOf(Math.min(...away)), 0);
  }

  const quantity = () => model(0).planner.metric || model(0).planner.unit.noun;

  // --- Answers ---------------------------------------------------------------------------------

  let speaking = 0;

  function answer() {
    const asked = table(state.model);
    const refusal = Number.isNaN(state.target)
      ? `Type a plain number, such as ${value(group().target)}.`
      : asked.refusal(state.target);
    get("refusal").hidden = !refusal;
    get("refusal").textContent = refusal;
    get("target").setAttribute("aria-invalid", String(Boolean(refusal)));
    get("found").hidden = Boolean(refusal);
    state.answer = refusal ? null : asked.plan(state.target);
    state.versus = null;
    if (state.answer) showAnswer(state.answer);
    showVersus();
    showExpected();
    markTarget();
    get("moved").hidden = state.group === data.start && state.target === group().target;
    clearTimeout(speaking); // a screen reader speaks when the slider rests
    speaking = setTimeout(() => {
      const said = state.answer ? asked.sentence(state.answer, data.sentences) : refusal;
      if (get("spoken").textContent !== said) get("spoken").textContent = said;
    }, QUIET);
  }

  function showAnswer(plan) {
    const box = get("samples");
    const { samples, doubt, safe: { "0.9": safe } } = plan;
    get("samples-label").textContent = atOnce(plan) ? "Samples, at most" : "Samples";
    get("samples-label").hidden = Boolean(doubt);
    box.textContent = doubt ? "No answer" : samples === null ? "not reachable" : count(samples);
    box.dataset.value = samples === null ? "" : String(samples);
    get("samples-chance").textContent =
      doubt ? "" : `chance ${chance(samples === null ? plan.reach : plan.chance)}`;
    get("words").textContent = table(state.model).sentence(plan, data.sentences);
    const between = (plan.between || []).map(value).join(" and ");
    get("between").hidden = !between;
    get("between").textContent = `Interpolated between the answers to ${between}`;
    const none = table(state.model).doubt ? "no N inside the pilot" : "no amount of data";
    const enough = Object.entries(plan.safe).map(([p, n]) => [
      `Enough with ${Math.round(100 * p)}% probability`,
      n === null ? `${none}: ${most(plan.reach, Number(p))}` : count(n),
    ]);
    const conditional = samples !== null && safe === null && !inside(plan);
    facts(get("facts"), doubt ? [] : [
      [
        inside(plan) ? "Means pass the target between N =" : "90% interval",
        samples === null || atOnce(plan) ? "" : interval(plan),
      ],
      ...(samples === null ? [] : enough),
      [
        `If the target is met by N = ${count(plan.by)} (chance ${chance(plan.byChance)})`,
        conditional ? `${count(plan.ifReached["0.9"])} are enough with 90% probability` : "",
      ],
      ["Chance to reach it at all", chance(plan.reach)],
      ["Levels off at about", samples === null ? value(table(state.model).floor) : ""],
      ["Collect next, in all", plan.next === null ? "nothing" : count(plan.next)],
      ...costs(samples, safe),
    ]);
    get("odd").replaceChildren(...table(state.model).findings.map((each) => element("li", each)));
  }

  function costs(samples, safe) {
    const each = parsed(get("cost").value);
    const bad = get("cost").value.trim() !== "" && !(each >= 0 && Number.isFinite(each));
    get("cost").setAttribute("aria-invalid", String(bad));
    get("cost-note").hidden = !bad;
    if (samples === null || !(each >= 0) || bad) return [];
    const currency = get("currency").value.trim();
    const priced = (n) =>
      `${(n * each).toLocaleString("en", { maximumFractionDigits: 2 })} ${currency}`.trim();
    return [
      ["Cost of these samples", priced(samples)],
      ["Cost of those that are enough with 90%", safe === null ? "" : priced(safe)],
    ];
  }

  function showVersus() {
    const block = get("versus");
    block.hidden = state.other < 0 || !state.answer;
    if (block.hidden) return;
    const [first, second] = [model(state.model), model(state.other)];
    const against = table(state.other);
    const easier = against.unit.toError(state.target) > against.unit.toError(against.targets[0]);
    const refusal = easier ? "" : against.refusal(state.target);
    const plan = refusal ? null : against.plan(state.target);
    state.versus = plan;
    block.dataset.value = plan && plan.samples !== null ? String(plan.samples) : "";
    get("versus-title").textContent = `${first.name} against ${second.name}`;
    facts(get("versus-facts"), [
      [`Samples of ${first.name}`, reached(state.answer)],
      [`Samples of ${second.name}`, plan ? reached(plan) : refusal],
      [`Ratio, ${second.name} over ${first.name}`, plan && ratio(state.answer, plan)],
      ["Two factors, fitted lines", plan && factors("line", first, second)],
      ["Two factors, the paper's lines", plan && factors("paper", first, second)],
      ["Crossover", plan && (pair().crossover || "not computed here: ask korisk compare")],
    ]);
  }

  const tableOf = (plan) => table(plan === state.versus ? state.other : state.model);
  const atOnce = (plan) => plan.samples !== null && plan.samples <= tableOf(plan).sizes[0];
  const inside = (plan) => plan.samples !== null && plan.samples <= tableOf(plan).last;
  const interval = (plan) =>
    `${count(plan.lower)} ${inside(plan) ? "and" : "to"} ${count(plan.upper)}`;

  function reached(plan) {
    if (plan.doubt) return `no answer. ${plan.doubt}`;
    if (plan.samples === null) return `not reachable (chance ${chance(plan.reach)})`;
    const words = atOnce(plan) ? "at most " : "";
    const ends = `; ${inside(plan) ? "between" : "90% interval"} ${interval(plan)}`;
    const odds = `chance ${chance(plan.chance)}${atOnce(plan) ? "" : ends}`;
    return `${words}${count(plan.samples)} (${odds})`;
  }

  /* What Python computed of the two models that are asked about. */
  const pair = () =>
    group().pairs.find((each) =>
      [each.first, each.second].every((at) => at === state.model || at === state.other),
    ) || {};

  function ratio(plan, other) {
    if (atOnce(plan) && atOnce(other)) return "unknown: both meet it at their smallest N";
    const { first, ratio_range: known } = pair();
    let range = "";
    if (known && state.target === group().target) {
      const inverse = known.map((end) => end && 1 / end).reverse();
      const [low, high] = first === state.model ? known : inverse;
      if (low && high) range = `90%: ${times(low)} to ${times(high)} if both reach it`;
      else range = `${low ? `at least ${times(low)}` : `at most ${times(high)}`} with 95% probability`;
    }
    if (plan.samples === null || other.samples === null) {
      return range || "unknown: one of the two has no number of samples";
    }
    const more = atOnce(plan) ? " or more" : atOnce(other) ? " or less" : "";
    const odds =
      `chance ${chance(other.chance)} for ${model(state.other).name}, ` +
      `${chance(plan.chance)} for ${model(state.model).name}`;
    const said = [odds, range].filter(Boolean).join("; ");
    return `${times(other.samples / plan.samples)}${more} (${said})`;
  }

  /* Proposition 2, for lines floor + slope log N / N. */
  function factors(method, first, second) {
    const [known, dense] = [first.lines[method], second.lines[method]];
    if (!known || !dense) return "unknown: a line cannot be fitted";
    const goal = table(state.model).unit.toError(state.target);
    if (goal <= Math.max(known.floor, dense.floor) || !known.slope || !dense.slope) {
      return "not defined: the target is at or below a floor, or a line is flat";
    }
    const structural = dense.slope / known.slope;
    const budget = (goal - known.floor) / (goal - dense.floor);
    return (
      `${times(structural)} (sigmas) × ${times(budget)} (distances of the floors from the target) = ` +
      `${times(structural * budget)} in N / log N`
    );
  }

  function showExpected() {
    const text = get("count").value;
    const box = get("expected");
    box.textContent = "";
    get("count").setAttribute("aria-invalid", "false");
    if (text.trim() === "") return;
    const [n, asked] = [parsed(text), table(state.model)];
    const [first, last] = [asked.sizes[0], asked.horizon];
    if (!(Number.isInteger(n) && n >= first && n <= last)) {
      get("count").setAttribute("aria-invalid", "true");
      box.textContent =
        `Give a whole number from ${count(first)} to ${count(last)}.` +
        (n > last && asked.doubt ? ` ${asked.doubt}` : "");
      return;
    }
    const at = (name) => expected(state.model, n, name);
    const [middle, ...ends] = ["middle", "better", "worse"].map(at);
    const odds = state.answer && !state.answer.doubt
      ? ` The chance to have met the target is ${chance(asked.probability(n, state.target))}.`
      : "";
    box.textContent =
      `${model(state.model).name}: ${quantity()} of about ${value(middle)} ` +
      `(90%: ${value(Math.min(...ends))} to ${value(Math.max(...ends))}).${odds}`;
  }

  /* A model's forecast at N, or an end of its band: in straight lines of the plot. */
  function expected(index, n, name) {
    const { track } = model(index);
    const [at, share] = place(track.n.map(Math.log), Math.log(n));
    const [a, b] = track[name].slice(at, at + 2);
    return logarithmic() ? a ** (1 - share) * b ** share : (1 - share) * a + share * b;
  }

  // --- Controls --------------------------------------------------------------------------------

  const modelNames = () => group().models.map((each, at) => [at, each.name]);

  function chooseGroup(index) {
    state.group = index;
    state.model = 0;
    const names = modelNames();
    fill(get("model"), names, 0);
    fillOthers(1);
    get("other-field").hidden = names.length < 2;
    get("all-field").hidden = names.length <= 2;
    get("target-label").textContent = `Target (${quantity()})`;
    showEnds();
    ask(group().target);
  }

  function showEnds() {
    get("slider").max = String(stops().length - 1);
    get("easy").textContent = `easier: ${value(stops()[0])}`;
    get("hard").textContent = `harder: ${value(stops().at(-1))}`;
  }

  function fillOthers(chosen) {
    const rest = modelNames().filter(([at]) => at !== state.model);
    const [first] = rest.find(([at]) => at === chosen) || rest[0] || [-1];
    state.other = first;
    fill(get("other"), rest, state.other);
  }

  function ask(target, { keepText = false, keepSlider = false } = {}) {
    state.target = target;
    if (!keepText) get("target").value = String(target);
    if (!Number.isNaN(target)) {
      if (!keepSlider) get("slider").value = String(positionOf(target));
      get("slider").setAttribute("aria-valuetext", `${quantity()} ${value(target)}`);
    }
    answer();
  }

  function listen() {
    const on = (id, event, act) => get(id).addEventListener(event, act);
    on("slider", "input", calm(() => ask(stops()[get("slider").value], { keepSlider: true })));
    on("target", "input", calm(() => ask(parsed(get("target").value), { keepText: true })));
    for (const id of ["cost", "currency"]) on(id, "input", calm(answer));
    on("count", "input", calm(showExpected));
    on("point", "change", () => {
      chooseGroup(Number(get("point").value));
      draw();
    });
    on("model", "change", () => {
      const before = state.model;
      state.model = Number(get("model").value);
      fillOthers(state.other === state.model ? before : state.other);
      showEnds();
      ask(state.target, { keepText: true });
      draw();
    });
    on("other", "change", () => {
      state.other = Number(get("other").value);
      answer();
      draw();
    });
    for (const id of ["bands", "lines", "all"]) on(id, "change", draw);
    on("reset", "click", () => {
      resets += 1;
      draw();
    });
  }

  // --- Curves ----------------------------------------------------------------------------------

  let library = null; // once it is unpacked
  let resets = 0; // a zoom stays until the next

  async function unpack() {
    const packed = Uint8Array.from(atob(get("library").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    document.head.append(element("script", await new Response(stream).text()));
    return window.Plotly;
  }

  const colour = (index) => css(`--series-${index % 8}`); // as many as the style has

  function shownModels() {
    const all = [...group().models.keys()];
    if (all.length <= 2 || get("all").checked) return all;
    return all.filter((at) => at === state.model || at === state.other);
  }

  function traces() {
    const made = [];
    for (const at of shownModels()) {
      const asked = at === state.model || at === state.other;
      if (get("bands").checked && (asked || shownModels().length <= CROWD)) made.push(...band(at));
      if (get("lines").checked && model(at).lines.paper) made.push(paperLine(at));
      made.push(...curve(at));
    }
    for (const each of group().short) made.push(dots(each.name, each, css("--muted"), "x"));
    return made;
  }

  function band(at) {
    const [x, better, worse] = drawnPart(model(at), "n", "better", "worse");
    const common = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
    const fill = { fill: "tonexty", fillcolor: `${colour(at)}2e` }; // 18% of it
    return [{ ...common, y: better }, { ...common, y: worse, ...fill }];
  }

  /* The parts of a track that are drawn. */
  function drawnPart({ track, planner }, ...names) {
    const far = track.n.filter((n) => n <= DRAWN * planner.last * (1 + 1e-9)).length;
    return names.map((name) => track[name].slice(0, far));
  }

  function curve(at) {
    const { name, planner, measured } = model(at);
    const [x, middle] = drawnPart(model(at), "n", "middle");
    const part = (keep, dash) => ({
      x,
      y: x.map((n, i) => (keep(n) ? middle[i] : null)),
      mode: "lines",
      meta: escaped(name),
      line: { color: colour(at), width: 2, dash },
      hovertemplate: "%{meta}<br>N = %{x:,.0f}<br>%{y:.4g}<extra></extra>",
    });
    const single = { color: colour(at), size: 4, opacity: 0.35 };
    return [
      part((n) => n <= planner.last, "solid"),
      part((n) => n >= planner.last, "dash"),
      { x: measured.all_n, y: measured.all, mode: "markers", marker: single, hoverinfo: "skip" },
      dots(name, measured, colour(at), SYMBOLS[at % SYMBOLS.length]),
    ];
  }

  function dots(name, measured, color, symbol) {
    const hovertemplate = "%{meta}, measured<br>N = %{x:,.0f}<br>%{y:.4g}<extra></extra>";
    const marker = { color, size: 9, symbol };
    const meta = escaped(name);
    return { x: measured.n, y: measured.mean, mode: "markers", meta, marker, hovertemplate };
  }

  function paperLine(at) {
    const { floor, slope } = model(at).lines.paper;
    const [x] = drawnPart(model(at), "n");
    const y = x.map((n) => table(at).unit.fromError(floor + (slope * Math.log(n)) / n));
    const line = { color: colour(at), width: 1.5, dash: "longdashdot" };
    return { x, y, mode: "lines", line, hoverinfo: "skip" };
  }

  /* Plotly reads some tags in texts; names are never tags. */
  const escaped = (text) =>
    text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  /* The target across, and a line at each number of samples with its chance beside it. */
  function marks() {
    const line = { type: "line", line: { color: css("--text"), width: 1, dash: "dot" } };
    const [shapes, annotations] = [[], []];
    if (!state.answer) return { shapes, annotations };
    const [across] = limits();
    shapes.push({ ...line, xref: "paper", x0: 0, x1: 1, y0: state.target, y1: state.target });
    for (const [plan, at] of [[state.answer, state.model], [state.versus, state.other]]) {
      if (!plan || plan.samples === null) continue;
      const [n, agrees] = [plan.samples, onCurve(plan, at)];
      const condition = agrees || plan.reach >= SURE ? "" : "if reached: ";
      const style = { color: colour(at), width: 2, dash: agrees ? "dot" : "longdash" };
      shapes.push({ ...line, line: style, yref: "paper", y0: 0, y1: 1, x0: n, x1: n });
      const xanchor = Math.log10(n) > (across[0] + across[1]) / 2 ? "right" : "left";
      const yshift = at === state.model ? 0 : 16;
      annotations.push({
        ...{ x: Math.log10(n), y: 1, yref: "paper", xanchor, yanchor: "bottom", yshift },
        showarrow: false,
        text: `${condition}N = ${count(n)}, chance ${chance(plan.chance)}`,
        font: { color: colour(at), size: 12 },
      });
    }
    return { shapes, annotations };
  }

  /* Whether the curve that is drawn passes the target at the plan's N, within a few per cent. */
  function onCurve(plan, at) {
    const { toError } = table(at).unit;
    const [n, goal] = [plan.samples, toError(plan.target)];
    const error = (size) => toError(expected(at, size, "middle"));
    return inside(plan) || (error(n / NEAR) * NEAR >= goal && error(n * NEAR) / NEAR <= goal);
  }

  /* Limits that stay while the target moves: all that was measured, all lines, most of the bands. */
  function limits() {
    const [sizes, heights] = [[], []];
    for (const at of shownModels()) {
      const { planner, measured } = model(at);
      const [n, middle, better, worse] = drawnPart(model(at), "n", "middle", "better", "worse");
      sizes.push(...n, ...measured.n);
      heights.push(...middle, ...measured.mean);
      n.forEach((each, i) => {
        if (each <= FARTHEST * planner.last) heights.push(better[i], worse[i]);
      });
    }
    const short = group().short;
    sizes.push(...short.flatMap((each) => each.n));
    heights.push(...short.flatMap((each) => each.mean), state.answer ? state.target : group().target);
    return [span(sizes, true), span(heights, logarithmic())];
  }

  function span(values, log) {
    const known = values.filter((each) => each !== null && (!log || each > 0));
    const flat = known.map((each) => (log ? Math.log10(each) : each));
    const [low, high] = [Math.min(...flat), Math.max(...flat)];
    const pad = 0.04 * (high - low) || 0.1;
    return [low - pad, high + pad];
  }

  /* Ticks at 1, 2, 5 unless that were too many or too few. */
  const logTicks = ([low, high]) =>
    high - low > 3.2 ? Math.ceil((high - low) / 9) : high - low > 0.7 ? "D2" : "D1";

  /* After a zoom, ticks for what is shown then. */
  function tickAgain() {
    const { _fullLayout: shown } = get("plot");
    const change = {};
    for (const name of ["xaxis", "yaxis"]) {
      const { type, dtick, range } = shown[name];
      if (type === "log" && dtick !== logTicks(range)) change[`${name}.dtick`] = logTicks(range);
    }
    if (Object.keys(change).length) library.relayout(get("plot"), change);
  }

  function layout() {
    const [across, up] = limits();
    const axis = { gridcolor: css("--line"), linecolor: css("--muted"), zeroline: false };
    const log = (range, tickformat) => ({ type: "log", tickformat, dtick: logTicks(range) });
    const vertical = logarithmic() ? log(up, "~g") : { type: "linear" };
    const [below, beside] = ["training samples N", escaped(quantity())];
    return {
      xaxis: { ...axis, ...log(across, ",~r"), range: across, title: { text: below } },
      yaxis: { ...axis, ...vertical, range: up, automargin: true, title: { text: beside } },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: css("--text"), family: css("--font"), size: 13 },
      margin: { l: 56, r: 12, t: 40, b: 48 },
      showlegend: false, // a list below the plot takes any number of names
      dragmode: matchMedia("(pointer: fine)").matches ? "zoom" : false,
      ...marks(),
      hovermode: "closest",
      uirevision: `${state.group} ${resets}`,
    };
  }

  function draw() {
    if (!library) return;
    const names = shownModels().map((at) => model(at).name).join(", ");
    const told = `${quantity()} over training samples N at ${group().name}, for ${names}`;
    get("plot").setAttribute("aria-label", `${told}; the figures stand in the tables`);
    showLegend();
    library.react(get("plot"), traces(), layout(), { displayModeBar: false, responsive: true });
  }

  function showLegend() {
    const entry = (sign, shade, text) => {
      const item = element("li");
      const mark = element("span", sign, { "aria-hidden": "true" });
      mark.style.color = shade;
      item.append(mark, element("span", text));
      return item;
    };
    const ofModel = (at) => entry(SIGNS[at % SIGNS.length], colour(at), model(at).name);
    const ofShort = ({ name }) => entry("✖", css("--muted"), `${name} (too few sizes to plan)`);
    const entries = [...shownModels().map(ofModel), ...group().short.map(ofShort)];
    if (get("lines").checked) entries.push(entry("– ·", css("--text"), "floor + σ log N / N"));
    get("legend").replaceChildren(...entries);
    const doubts = shownModels().map(model).filter((each) => each.planner.doubt);
    const said = doubts.map((each) => element("li", `${each.name}: ${each.planner.doubt}`));
    get("doubts").replaceChildren(...said);
    get("doubts").hidden = !doubts.length;
  }

  function markTarget() {
    if (!library) return;
    const [low, high] = get("plot")._fullLayout.yaxis.range;
    const height = logarithmic() ? Math.log10(state.target) : state.target;
    if (height < low || height > high) draw(); // with other limits
    else library.relayout(get("plot"), marks());
  }

  /* The library takes a moment to start: not before curves come near, so that answers come first. */
  function drawWhenNear() {
    const page = document.documentElement.dataset;
    if (!window.DecompressionStream || !window.IntersectionObserver) return; // an old browser
    page.draws = "yes";
    get("drawing").hidden = false;
    const start = async (entries) => {
      if (!entries.some((each) => each.isIntersecting)) return;
      observer.disconnect();
      try {
        library = await unpack();
      } catch (error) {
        delete page.draws; // the still picture comes back
        get("drawing").hidden = true;
        return;
      }
      draw();
      get("plot").on("plotly_relayout", tickAgain);
      page.drawn = "yes";
    };
    const observer = new IntersectionObserver(start, { rootMargin: "400px" });
    observer.observe(get("plot"));
  }

  // --- Pictures --------------------------------------------------------------------------------

  let scene = null;

  function chooseScene(index) {
    scene = data.pictures[index];
    get("size").max = String(scene.sizes.length - 1);
    get("size").value = "1";
    const rows = scene.truth.map((truth, image) => {
      const row = element("div", null, { class: "row" });
      const name = `Test image ${image + 1}`;
      row.append(picture(name, { src: truth, alt: name }, {}));
      for (const model of Object.keys(scene.frames)) {
        for (const kind of ["image", "error"]) {
          row.append(picture("", { src: "data:,", alt: "" }, { model, image, kind }));
        }
      }
      return row;
    });
    get("frames").replaceChildren(...rows);
    const [low, high] = scene.grey.map(value);
    const less = scene.reduced > 1 ? ` Shown reduced ${scene.reduced} times from` : " Shown at";
    get("frames-caption").textContent =
      `Grey from ${low} to ${high}. Errors: red too large, blue too small, full colour at ` +
      `${value(scene.reach)} and beyond. Percentages: root mean square error of the image over ` +
      `the root mean square of the truth. Seed ${scene.seed}.${less} ` +
      `${scene.side[0]} × ${scene.side[1]} pixels.`;
    showSize();
  }

  function picture(words, image, dataset) {
    const box = element("figure");
    box.append(element("img", null, image), element("figcaption", words));
    Object.assign(box.dataset, dataset);
    return box;
  }

  function showSize() {
    const n = scene.sizes[Number(get("size").value)];
    const words = n === 0 ? "none, untrained" : count(n);
    get("size-text").textContent = words;
    get("size").setAttribute("aria-valuetext", words);
    for (const box of get("frames").querySelectorAll("figure[data-model]")) {
      const { model: name, image, kind } = box.dataset;
      const [shown, caption] = box.children;
      const found = (scene.frames[name][n] || [])[Number(image)];
      shown.hidden = !found;
      box.classList.toggle("absent", !found);
      if (!found) {
        caption.textContent = `${name}: nothing at N = ${count(n)}`;
        continue;
      }
      const off = found.relative === null ? "unknown" : `${(100 * found.relative).toPrecision(3)}%`;
      const what = kind === "image" ? "reconstruction" : "error";
      shown.src = found[kind];
      shown.alt = `${what} of test image ${Number(image) + 1} by ${name} with N = ${n}: ${off} off`;
      caption.textContent = kind === "image" ? `${name}: ${off} off` : `${name}: its error`;
    }
  }

  // --- Theme, start ----------------------------------------------------------------------------

  const isDark = () =>
    (document.documentElement.dataset.theme ||
      (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

  function showTheme() {
    get("theme").textContent = isDark() ? "Light colours" : "Dark colours";
    if (library) draw();
  }

  function start() {
    addEventListener("beforeprint", () => {
      for (const each of document.querySelectorAll("#how details")) each.open = true;
    });
    get("theme").hidden = false;
    get("theme").addEventListener("click", () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      showTheme();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
    showTheme();
    const planned = data.groups.flatMap((g, at) => (g.models.length ? [[at, g.name]] : []));
    if (planned.length) {
      fill(get("point"), planned, state.group);
      get("point-field").hidden = planned.length < 2;
      get("panel").hidden = false;
      listen();
      chooseGroup(state.group);
      drawWhenNear();
    }
    const last = data.pictures.length - 1;
    if (last >= 0) {
      fill(get("scene"), data.pictures.map((each, at) => [at, each.point]), last);
      get("scene-field").hidden = last === 0;
      get("scene").addEventListener("change", () => chooseScene(Number(get("scene").value)));
      get("size").addEventListener("input", showSize);
      get("gallery").hidden = false;
      chooseScene(last);
    }
  }

  start();
})();
