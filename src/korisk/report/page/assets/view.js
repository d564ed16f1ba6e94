/* What the page shows: controls, answers, chart, pictures. The answers are table.js's. */
(function () {
  "use strict";

  const data = JSON.parse(document.getElementById("data").textContent);
  const { Table, place, general, value, chance, times, count, level, fill: filled } = window.koriskTable;
  const about = (x) => general(x, 3); // of what is interpolated
  const SIGNS = "●■◆▲▼"; // of models, and the same to be drawn
  const SHAPES = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M-4-4h8v8h-8", "M0-6L6 0 0 6-6 0", "M0-5L5 4H-5", "M0 5L5-4H-5"];
  const CROSS = "M-4-4L4 4M-4 4L4-4"; // of curves that are too short to plan
  const CROWD = 8; // models beyond which only those that are asked about have bands
  const QUIET = 600; // milliseconds until an answer is spoken,
  const SETTLED = 150; // and until it is in the address
  const REACHES = [16, 64, 256, 1024, Infinity]; // times the pilot: where the chart ends, the first that fits
  const SURE = 0.9; // the level with which a page opens
  const HATCHES = [45, -45, 0, 90, 20, -20, 70, -70]; // degrees, of the bands of forecasts
  const MANTISSAS = [[1, 1.5, 2, 3, 4, 5, 7], [1, 2, 5], [1, 3], [1]]; // of ticks, densest first

  const get = (id) => document.getElementById(id);
  const on = (id, event, act) => get(id).addEventListener(event, act);

  // `count` is the N that was typed, `hover` the one under the pointer.
  const state = { group: data.start, model: 0, other: -1, target: NaN, sure: SURE, count: null, hover: null };
  const plans = { own: null, other: null };
  const opened = new Map(); // tables, opened when first asked for

  // --- Small helpers ---------------------------------------------------------------------------

  function element(name, text, attributes, made = document.createElement(name)) {
    if (text !== undefined && text !== null) made.textContent = text;
    for (const [key, content] of Object.entries(attributes || {})) made.setAttribute(key, content);
    return made;
  }

  const drawn = (name, attributes, text) =>
    element(name, text, attributes, document.createElementNS("http://www.w3.org/2000/svg", name));

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

  function tell(id, text) {
    get(id).hidden = !text;
    get(id).textContent = text;
  }

  /* Calls to the result run once a frame, however many there are. */
  function calm(act) {
    let frame = 0;
    return (event) => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => act(event));
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

  // --- What is asked ---------------------------------------------------------------------------

  const group = () => data.groups[state.group];
  const model = (at) => group().models[at];
  const names = () => group().models.map((each, at) => [at, each.name]);
  const quantity = () => model(0).planner.metric || model(0).planner.unit.noun;
  const logarithmic = () => model(0).planner.unit.logarithmic;

  function table(at) {
    const key = `${state.group}/${at}`;
    if (!opened.has(key)) opened.set(key, new Table(model(at).planner, data.templates));
    return opened.get(key);
  }

  const levels = () => table(state.model).levels;
  const indexOf = (name) => group().models.findIndex((each) => each.name === name);

  /* The slider stops at targets of the table, whose answers are exact. */
  const stops = () => table(state.model).stops.map((at) => table(state.model).targets[at]);

  function positionOf(target) {
    const depth = (each) => Math.log(table(state.model).unit.toError(each));
    const away = stops().map((each) => Math.abs(depth(each) - depth(target)));
    return Math.max(away.indexOf(Math.min(...away)), 0);
  }

  function choose(at, asked, other = -1) {
    state.group = at;
    asked ??= data.opens === "ratio" ? 0 : group().model;
    const all = names();
    state.model = Math.min(asked, all.length - 1);
    const rest = all.filter(([each]) => each !== state.model);
    [state.other] = rest.find(([each]) => each === other) || rest[0] || [-1];
    get("point").value = String(at);
    fill(get("model"), all, state.model);
    fill(get("other"), rest, state.other);
    get("other-field").hidden = all.length < 2;
    get("all-field").hidden = all.length <= 2;
    get("target-label").textContent = `Target (${quantity()})`;
    get("error-head").textContent = quantity();
    get("slider").max = String(stops().length - 1);
    get("easy").textContent = `easier: ${value(stops()[0])}`;
    get("hard").textContent = `harder: ${value(stops().at(-1))}`;
    get("sure").max = String(levels().length - 1);
    get("legend").textContent = `${group().legend} ${data.explained[0].toUpperCase()}${data.explained.slice(1)}.`;
    const scene = data.pictures.findIndex((each) => each.point === group().name);
    if (scene >= 0) showScene(scene);
  }

  /* A target that has no answer leaves the last answer where it is, and says so. */
  function ask(target, { text = null, said = "" } = {}) {
    const refusal = Number.isNaN(target)
      ? `${text ? `“${text}” is no number` : "The target is empty"}; type one, such as ${value(group().target)}.`
      : table(state.model).refusal(target);
    get("target").setAttribute("aria-invalid", String(Boolean(refusal)));
    if (!refusal) {
      state.target = target;
      if (text === null) get("target").value = String(target);
    }
    get("slider").value = String(positionOf(state.target));
    get("slider").setAttribute("aria-valuetext", `${quantity()} ${value(state.target)}`);
    const kept = `The answer is still that to ${value(state.target)}.`;
    tell("refusal", said || (refusal && `${refusal} ${kept}`));
    answer();
  }

  /* Another model: the same target if it has an answer there, else the nearest stop. */
  function askAgain(why = []) {
    const refusal = table(state.model).refusal(state.target);
    const nearest = stops()[positionOf(state.target)];
    if (refusal) why.push(`${model(state.model).name}: ${refusal} Here is ${value(nearest)}.`);
    ask(refusal ? nearest : state.target, { said: why.join(" ") });
  }

  /* Another point: model, target and level stay, and what cannot is said. */
  function move(at) {
    const [own, other] = [state.model, state.other].map((each) => (each < 0 ? "" : model(each).name));
    const measured = quantity();
    choose(at);
    if (indexOf(own) >= 0) choose(at, indexOf(own), indexOf(other));
    state.count = null;
    const why = indexOf(own) < 0 ? [`${group().name} has no ${own}; shown is ${model(state.model).name}.`] : [];
    if (quantity() !== measured) {
      why.push(`${group().name} is measured in ${quantity()}, so its target is another.`);
      state.target = group().target;
    }
    askAgain(why);
  }

  function setSure(sure) {
    state.sure = sure;
    answer();
  }

  // --- The address -----------------------------------------------------------------------------

  let writing = 0;

  function writeAddress() {
    const { theme } = document.documentElement.dataset;
    const told = {
      point: group().name,
      model: model(state.model).name,
      with: state.other < 0 ? "" : model(state.other).name,
      target: String(state.target),
      sure: state.sure === SURE ? "" : String(state.sure),
      n: state.count === null ? "" : String(state.count),
      cost: get("cost").value,
      theme: theme || "",
    };
    const kept = Object.entries(told).filter(([, text]) => text !== "");
    clearTimeout(writing);
    writing = setTimeout(() => {
      try {
        history.replaceState(null, "", `#${new URLSearchParams(kept)}`);
      } catch (error) {
        // a page inside another one may have no address of its own
      }
    }, SETTLED);
  }

  /* Whether the address tells a state. What it asks for and is not here is said. */
  function readAddress() {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (!location.hash.includes("=")) return false;
    const unknown = [];
    const find = (name, among) => {
      if (!asked.has(name)) return undefined;
      const [found] = among.find(([, each]) => each === asked.get(name)) || [];
      if (found === undefined) unknown.push(`${name} “${asked.get(name)}”`);
      return found;
    };
    const before = { ...state };
    const [own, other] = Number.isNaN(state.target) ? [] : [state.model, state.other].map((each) => model(each)?.name);
    state.group = find("point", planned()) ?? state.group;
    const stays = (name) => (indexOf(name) < 0 ? undefined : indexOf(name)); // the same at another point
    choose(state.group, find("model", names()) ?? stays(own), find("with", names()) ?? stays(other));
    const refused = (target) => Boolean(table(state.model).refusal(target));
    state.target = refused(before.target) ? group().target : before.target;
    if (asked.has("target")) {
      const target = parsed(asked.get("target"));
      if (refused(target)) unknown.push(`target “${asked.get("target")}”`);
      else state.target = target;
    }
    if (asked.has("sure")) {
      const sure = parsed(asked.get("sure"));
      if (levels().includes(sure)) state.sure = sure;
      else unknown.push(`chance “${asked.get("sure")}”`);
    }
    for (const [name, id] of [["n", "count"], ["cost", "cost"]]) {
      if (asked.has(name)) get(id).value = asked.get(name);
    }
    readCount();
    const theme = asked.get("theme");
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
    const said = unknown.length ? `The address asks for ${unknown.join(" and ")}, which this page does not have.` : "";
    ask(state.target, { said });
    return true;
  }

  // --- Answers ---------------------------------------------------------------------------------

  let speaking = 0;

  const tableOf = (plan) => table(plan === plans.other ? state.other : state.model);
  const odds = (plan) => tableOf(plan).odds(plan);

  function answer() {
    const cost = parsed(get("cost").value);
    const priced = cost > 0 && Number.isFinite(cost);
    const bad = get("cost").value.trim() !== "" && !priced;
    get("cost").setAttribute("aria-invalid", String(bad));
    tell("cost-note", bad ? "The cost of a sample is a plain number, such as 12.50." : "");
    const planOf = (at) => table(at).plan(state.target, state.sure, priced ? cost : null);
    plans.own = planOf(state.model);
    plans.other = null;
    let refusal = "";
    if (state.other >= 0) {
      const { unit, targets } = table(state.other);
      const easier = unit.toError(state.target) > unit.toError(targets[0]);
      refusal = easier ? "" : table(state.other).refusal(state.target);
      if (!refusal) plans.other = planOf(state.other);
    }
    get("sure").value = String(levels().indexOf(state.sure));
    get("sure").setAttribute("aria-valuetext", `${level(state.sure)} sure`);
    get("sure-text").textContent = `${level(state.sure)} sure`;
    showHeadline(refusal);
    showAnswers();
    showVersus();
    draw();
  }

  /* The advice, which a screen reader speaks when the sliders rest. */
  function showHeadline(refusal) {
    const point = planned().length > 1 ? `${group().name}, ` : "";
    const why = state.target === group().target && group().why ? ` (${group().why})` : "";
    const where = `For ${point}${quantity()} ${value(state.target)}${why}.`;
    const saving = pairSaving();
    const compared = data.opens === "ratio" && saving;
    get("advice").setAttribute("aria-busy", "true");
    get("headline").textContent = compared ? saving.words : plans.own.advice.sentence;
    get("headline").classList.toggle("unlikely", Boolean(compared) && !saving.likely);
    get("headline").dataset.value = plans.own.n === null ? "" : String(plans.own.n);
    get("headline").dataset.action = plans.own.advice.action;
    get("odds").textContent = compared ? pair().crossover : `${odds(plans.own)} ${where}`.trim();
    get("record").textContent = compared ? pair().record : table(state.model).held(plans.own);
    get("question").textContent = table(state.model).question(`${quantity()} ${value(state.target)}`);
    const line = compared ? "" : saving ? saving.words : refusal;
    get("ratio").textContent = line;
    get("ratio").classList.toggle("unlikely", Boolean(saving) && !saving.likely);
    clearTimeout(speaking);
    speaking = setTimeout(() => get("advice").removeAttribute("aria-busy"), QUIET);
  }

  /* Advice with its odds; in the details the same numbers as a table, and all reasons. */
  function showAnswers() {
    const told = answers();
    const shown = [...new Set([...data.levels, state.sure])].sort();
    const line = ([plan, at]) => {
      const row = element("p");
      const { sentence } = plan.advice;
      const own = `${table(at).model}: `;
      row.append(named(element("strong"), at), ` ${sentence.startsWith(own) ? sentence.slice(own.length) : sentence}`);
      row.append(element("span", odds(plan), { class: "caption" }));
      return row;
    };
    get("bars").replaceChildren(...told.map(line));
    const between = told.filter(([plan]) => plan.interpolated).map(([plan, at]) =>
      `${model(at).name}: interpolated between the answers to ${plan.interpolated.map(value).join(" and ")}.`);
    get("about").textContent = between.join(" ");
    const name = told.length > 1 ? (at) => `${model(at).name}: ` : () => "";
    get("reasons").replaceChildren(
      ...told.flatMap(([plan, at]) => plan.reasons.map((reason) => element("li", name(at) + reason))),
    );
    const heads = ["model", ...table(state.model).heads(shown)].map((text) => element("th", text, { scope: "col" }));
    get("samples").tHead.rows[0].replaceChildren(...heads);
    get("samples").tBodies[0].replaceChildren(...told.map(([plan, at]) => {
      const row = element("tr");
      row.append(named(element("th", null, { scope: "row" }), at));
      row.append(...table(at).cells(plan, shown).map((text) => element("td", text)));
      return row;
    }));
  }

  function showVersus() {
    get("versus").hidden = state.other < 0;
    if (state.other < 0) return;
    const [first, second, plan] = [model(state.model), model(state.other), plans.other];
    get("versus").dataset.value = plan && plan.n !== null ? String(plan.n) : "";
    get("versus-title").textContent = `${first.name} against ${second.name}`;
    facts(get("versus-facts"), [
      ["Two factors, the paper's lines", plan && factors(first.line, second.line)],
      ["Crossover", pair().crossover || "not computed here: ask korisk compare"],
    ]);
  }

  /* What Python computed of the two models that are asked about. */
  const pair = () =>
    group().pairs.find((each) =>
      [each.first, each.second].every((at) => at === state.model || at === state.other),
    ) || {};

  /* Which of the two needs how many times fewer samples, at the nearest target that was compared. */
  function pairSaving() {
    const { targets, savings, likely } = pair();
    if (!targets || !plans.other) return null;
    const depth = (each) => Math.log(table(state.model).unit.toError(each));
    const away = targets.map((each) => Math.abs(depth(each) - depth(state.target)));
    const at = away.indexOf(Math.min(...away));
    return { words: savings[at], likely: likely[at] };
  }

  /* Proposition 1, for lines floor + slope log N / N. */
  function factors(known, dense) {
    const goal = table(state.model).unit.toError(state.target);
    const { "": text, unknown } = data.templates.factors;
    if (!known?.slope || !dense?.slope || goal <= Math.max(known.floor, dense.floor)) return unknown;
    const [structural, budget] = [dense.slope / known.slope, (goal - known.floor) / (goal - dense.floor)];
    const numbers = { structural, budget, product: structural * budget };
    return filled(text, Object.fromEntries(Object.entries(numbers).map(([name, x]) => [name, times(x)])));
  }

  // --- The chart -------------------------------------------------------------------------------

  const colour = (at) => `var(--series-${at % 8})`; // as many as the style has
  const span = (at) => [table(at).first, table(at).horizon];

  /* A model's name behind its sign. */
  function named(box, at) {
    const sign = element("span", SIGNS[at % SIGNS.length], { "aria-hidden": "true" });
    sign.style.color = colour(at);
    box.append(sign, ` ${model(at).name}`);
    return box;
  }

  function shown() {
    const all = [...group().models.keys()];
    if (all.length <= 2 || get("all").checked) return all;
    return all.filter((at) => at === state.model || at === state.other);
  }

  /* A model's forecast at N, or an end of its band: in straight lines of the chart. */
  function expected(at, n, name) {
    const { track } = model(at);
    const [index, share] = place(track.n.map(Math.log), Math.log(n));
    const [a, b] = track[name].slice(index, index + 2);
    return logarithmic() ? a ** (1 - share) * b ** share : (1 - share) * a + share * b;
  }

  /* An axis from the smallest to the largest of some values, between two pixels. */
  function axis(values, log, start, end) {
    const flat = values.filter((v) => v !== null && (!log || v > 0)).map(log ? Math.log10 : Number);
    let [low, high] = [Math.min(...flat), Math.max(...flat)];
    const pad = 0.04 * (high - low) || 0.1;
    [low, high] = [low - pad, high + pad];
    const to = (v) => start + ((end - start) * ((log ? Math.log10(v) : v) - low)) / (high - low);
    const back = (pixel) => low + ((high - low) * (pixel - start)) / (end - start);
    return { to, back, low, high, ticks: (room) => ticks(low, high, log, room) };
  }

  /* At most so many round numbers. */
  function ticks(low, high, log, room) {
    for (const mantissas of log ? MANTISSAS : []) {
      const made = [];
      for (let power = Math.floor(low); power <= high; power += 1) {
        for (const mantissa of mantissas) made.push(Number(`${mantissa}e${power}`));
      }
      const inner = made.filter((v) => v >= 10 ** low && v <= 10 ** high);
      if (inner.length > 1 && inner.length <= room) return inner;
    }
    if (log && high - low > 1) {
      const step = Math.ceil((high - low) / room);
      const powers = [];
      for (let power = Math.ceil(low); power <= high; power += step) powers.push(10 ** power);
      return powers;
    }
    const [from, to] = log ? [10 ** low, 10 ** high] : [low, high];
    const rough = (to - from) / room;
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * unit).find((each) => each >= rough);
    const made = [];
    for (let k = Math.ceil(from / step); k * step <= to; k += 1) made.push(k * step);
    return made;
  }

  // --- One style of learning curves, as korisk/report/figures/panels.py draws them --------------

  /* Shapes of one chart between its axes; they are put into it at the end, all at once. */
  function pencil(x, y) {
    const made = [];
    const add = (...what) => made.push(drawn(...what));
    const path = (points, attributes) => {
      const d = points.map(([n, v]) => `${x.to(n).toFixed(1)} ${y.to(v).toFixed(1)}`).join("L");
      if (points.length > 1) add("path", { d: `M${d}`, fill: "none", ...attributes });
    };
    const line = (x1, y1, x2, y2, attributes) => add("line", { x1, y1, x2, y2, ...attributes });
    const words = (text, at, up, attributes) => add("text", { x: at, y: up, ...attributes }, text);
    return { x, y, made, add, path, line, words };
  }

  /* What was measured: points joined by straight segments, with bars of one standard error. */
  function measuredCurve({ x, y, add, path, line }, each, shade, shape, attributes) {
    const put = (n, v) => ({ transform: `translate(${x.to(n)} ${y.to(v)})`, fill: shade });
    each.all_n.forEach((n, i) => add("circle", { ...put(n, each.all[i]), r: 2, class: "single" }));
    path(each.n.map((n, i) => [n, each.mean[i]]), { stroke: shade, class: "curve", ...attributes });
    each.n.forEach((n, i) => {
      const [low, high] = [each.low[i], each.high[i]].map(y.to);
      if (low !== high) line(x.to(n), low, x.to(n), high, { stroke: shade, class: "error-bar" });
      add("path", { d: shape, ...put(n, each.mean[i]), stroke: shade, class: "mean", "data-mean": each.mean[i] });
    });
  }

  /* A forecast: a dashed line and its hatched 90% band. */
  function forecastCurve({ add, made, path }, { n, middle, better, worse }, shade, at, band) {
    const style = { "clip-path": "url(#inside)", "data-model": at };
    const zip = (values) => n.map((each, i) => [each, values[i]]).filter(([, v]) => v !== null);
    if (band) {
      const turn = HATCHES[at % HATCHES.length];
      const tile = { id: `hatch-${at}`, width: 7, height: 7, patternUnits: "userSpaceOnUse" };
      add("pattern", { ...tile, patternTransform: `rotate(${turn})` });
      made.at(-1).append(drawn("line", { x1: 0, y1: 0, x2: 0, y2: 7, stroke: shade, "stroke-width": 1.4 }));
      const around = [...zip(better), ...zip(worse).reverse()];
      path(around, { ...style, class: "band", fill: shade });
      path(around, { ...style, class: "hatch", fill: `url(#hatch-${at})` });
    }
    path(zip(middle), { ...style, stroke: shade, class: "curve extrapolated" });
  }

  /* A line of the paper's formula: dotted. */
  const paperLine = ({ path }, points, shade, at) =>
    path(points, { stroke: shade, class: "paper", "clip-path": "url(#inside)", "data-model": at });

  /* Grid, ticks and titles of both axes. */
  function axes({ x, y, line, words }, { left, right, top, bottom, wide, high }, up, format, room) {
    for (const n of x.ticks(wide / 70)) {
      line(x.to(n), top, x.to(n), bottom, { class: "grid" });
      words(count(n), x.to(n), bottom + 17, { "text-anchor": "middle" });
    }
    for (const v of y.ticks(room)) {
      line(left, y.to(v), right, y.to(v), { class: "grid" });
      words(format(v), left - 6, y.to(v) + 4, { "text-anchor": "end" });
    }
    words("training samples N", (left + right) / 2, high - 6, { "text-anchor": "middle" });
    words(up, 4, top - 8, { class: "quiet axis-title" });
  }

  /* Put a chart's shapes into it; no words are cut at an edge. */
  function show(plot, made, wide) {
    plot.replaceChildren(...made);
    for (const each of plot.querySelectorAll("text")) {
      const { x: start, width } = each.getBBox();
      const off = Math.max(1 - start, 0) || Math.min(wide - 1 - start - width, 0);
      if (off) each.setAttribute("x", Number(each.getAttribute("x")) + off);
    }
  }

  let scale = null; // the axes that are drawn

  const answers = () => [[plans.own, state.model], [plans.other, state.other]].filter(([plan]) => plan);
  const within = (n, left, right, x) => Math.min(Math.max(n === null ? right : x.to(n), left), right);

  function draw() {
    const plot = get("plot");
    const [wide, high] = [plot.clientWidth, plot.clientHeight];
    if (!wide) return;
    plot.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    const marked = answers().filter(([plan]) => plan.lower !== null);
    // The chart ends where the pilot has grown so many times that the answers lie in it.
    const last = Math.max(...shown().map((at) => table(at).last));
    // A target that is probably not reached has no place of its own: it would press the curves aside.
    const likely = marked.filter(([plan]) => plan.reach >= 0.5);
    const far = Math.max(...likely.flatMap(([plan]) => [plan.lower, plan.even, plan.n, plan.upper]), 0);
    const reach = last * REACHES.find((each) => far <= 0.8 * each * last);
    const parts = shown().map((at) => {
      const { track } = model(at);
      const [from, to] = [table(at).known ? track.n.findIndex((n) => n >= table(at).last) : 0, track.n.filter((n) => n <= reach).length];
      return [at, Object.fromEntries(Object.keys(track).map((name) => [name, track[name].slice(from, to)]))];
    });
    const simulated = shown().flatMap((at) => (model(at).simulated ? [[model(at).simulated, at]] : []));
    const measured = [...shown().map((at) => model(at).measured), ...simulated.map(([each]) => each), ...group().short];
    const sizes = [...parts.flatMap(([, part]) => part.n), ...measured.flatMap((each) => each.n)];
    const heights = [
      ...parts.flatMap(([at, part]) => [
        ...part.middle,
        ...part.better.concat(part.worse).filter((_, i) => part.n[i % part.n.length] <= 4 * table(at).last),
      ]),
      ...measured.flatMap((each) => [...each.mean, ...each.low, ...each.high]),
      state.target,
    ];
    const [left, right, top, bottom] = [58, wide - 10, 40, high - 40];
    const x = axis(sizes, true, left, right);
    const y = axis(heights, logarithmic(), bottom, top);
    scale = { x, y, left, right, top, bottom, wide, high };

    const pen = pencil(x, y);
    const { add, line, words, made } = pen;
    const edge = x.to(table(state.model).last);
    if (edge < right) {
      const box = { x: edge, y: top, width: right - edge, height: bottom - top };
      add("rect", { ...box, class: "beyond" });
    }
    axes(pen, scale, quantity(), value, high / 45);
    const { toError } = table(state.model).unit; // curves leave the corner above free, or that below
    const corner = toError(2) > toError(1) ? top + 16 : bottom - 7;
    const known = table(state.model).known ? "measured" : "rehearsed";
    if (edge - left > 150) words(known, edge - 6, corner, { "text-anchor": "end", class: "quiet" });
    if (right - edge > 90) words("forecast", edge + 6, corner, { class: "quiet" });

    add("clipPath", { id: "inside" });
    made.at(-1).append(drawn("rect", { x: left, y: top, width: right - left, height: bottom - top }));
    for (const [at, part] of parts) {
      const among = at === state.model || at === state.other;
      forecastCurve(pen, part, colour(at), at, among || parts.length <= CROWD);
      const { line: paper } = model(at);
      if (get("lines").checked && paper) {
        const { fromError } = table(at).unit;
        const formula = (n) => fromError(paper.floor + (paper.slope * Math.log(n)) / n);
        const drawnN = model(at).track.n.filter((n) => n <= reach);
        paperLine(pen, drawnN.map((n) => [n, formula(n)]), colour(at), at);
      }
    }
    for (const at of shown()) {
      measuredCurve(pen, model(at).measured, colour(at), SHAPES[at % SHAPES.length], { "data-model": at });
    }
    for (const [each, at] of simulated) measuredCurve(pen, each, colour(at), CROSS, { class: "curve short" });
    for (const each of group().short) measuredCurve(pen, each, "var(--muted)", CROSS, { class: "curve short" });

    // The target, and on it the interval of each N, even odds, and N with a line down to it.
    const across = y.to(state.target);
    line(left, across, right, across, { class: "target", id: "target-line" });
    marked.forEach(([plan, at], row) => {
      const style = { stroke: colour(at), "data-model": at };
      const [from, to] = [plan.lower, plan.upper].map((n) => within(n, left, right, x));
      line(from, across, to, across, { ...style, class: row ? "interval thin" : "interval" });
      if (plan.upper === null || x.to(plan.upper) > right) { // an open end
        add("path", { d: `M${right - 8} ${across - 6}L${right} ${across}L${right - 8} ${across + 6}`, fill: "none", ...style, class: "open-end" });
      }
      if (plan.even !== null && plan.even !== plan.n) {
        add("circle", { ...style, cx: within(plan.even, left, right, x), cy: across, r: 4, fill: "var(--paper)", class: "mark" });
      }
      if (plan.n === null) return;
      const place = within(plan.n, left, right, x);
      line(place, top, place, bottom, { ...style, class: "samples", "data-n": plan.n });
      add("circle", { ...style, cx: place, cy: across, r: 5, fill: colour(at), class: "mark" });
      const anchor = place > (left + right) / 2 ? "end" : "start";
      const off = x.to(plan.n) > right ? " →" : "";
      const said = `${SIGNS[at % SIGNS.length]} N = ${count(plan.n)} (${level(plan.sure)} sure)${off}`;
      words(said, place, row ? top - 6 : top - 22, { fill: colour(at), "text-anchor": anchor, class: "label" });
    });
    // Curves begin above the target where errors fall, and below it where scores rise.
    const under = toError(2) > toError(1) && across + 20 < bottom;
    words(`target ${value(state.target)}`, left + 5, across + (under ? 18 : -9), { class: "quiet", id: "target-text" });
    show(plot, made, wide);
    const told = shown().map((at) => model(at).name).join(", ");
    plot.setAttribute("aria-label", `${quantity()} over training samples N at ${group().name}, for ${told}`);
    drawOdds();
    showReadout();
  }

  /* The chance that the target is met by N, over the N of the chart above, and the level asked for. */
  function drawOdds() {
    const plot = get("odds-plot");
    const high = plot.clientHeight;
    const { x, left, right, wide } = scale;
    const [top, bottom] = [22, high - 40];
    plot.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    const y = { to: (p) => bottom + (top - bottom) * p, ticks: () => [0, 0.25, 0.5, 0.75, 1] };
    const pen = pencil(x, y);
    const { add, path, line, words, made } = pen;
    const percent = (p) => `${Math.round(100 * p)}%`;
    axes(pen, { left, right, top, bottom, wide, high }, "chance that the target is met by N", percent);
    const drawnOf = answers().filter(([plan, at]) => !plan.doubt && !table(at).refusal(plan.target));
    for (const [plan, at] of drawnOf) {
      const [first, last] = span(at);
      const points = [];
      for (let pixel = left; pixel <= right; pixel += 3) {
        const n = 10 ** x.back(pixel);
        if (n >= first && n <= last) points.push([n, table(at).probability(n, plan.target)]);
      }
      path(points, { stroke: colour(at), class: "curve odds", "data-model": at });
    }
    const height = y.to(state.sure);
    line(left, height, right, height, { class: "target", id: "sure-line" });
    for (const [plan, at] of drawnOf) {
      const style = { stroke: colour(at), "data-model": at };
      const mark = (n, fill) => { // N is whole, so that its chance may lie above the level
        if (n === null || x.to(n) > right) return;
        const p = table(at).probability(n, plan.target);
        add("circle", { ...style, cx: within(n, left, right, x), cy: y.to(p), r: 4.5, fill, class: "mark" });
      };
      if (plan.n !== null && x.to(plan.n) <= right) {
        line(x.to(plan.n), height, x.to(plan.n), bottom, { ...style, class: "samples" });
      }
      if (plan.even !== plan.n) mark(plan.even, "var(--paper)");
      mark(plan.n, colour(at));
    }
    words(`${level(state.sure)} sure`, left + 6, state.sure > 0.8 ? height + 15 : height - 6, { class: "quiet" });
    show(plot, made, wide);
    const told = answers().map(([plan, at]) => `${model(at).name} ${plan.n === null ? "at no N" : `at N = ${count(plan.n)}`}`);
    plot.setAttribute("aria-label", `Chance that the target is met by N; ${level(state.sure)} for ${told.join(", ")}`);
  }

  // --- The chart at one N ----------------------------------------------------------------------

  const reading = () =>
    state.hover || state.count || plans.own.n || table(state.model).last;

  function showReadout() {
    const n = reading();
    if (document.activeElement !== get("count")) get("count").value = count(n);
    const row = (at) => {
      const [first, last] = span(at);
      const known = n >= first && n <= last;
      const name = named(element("th", null, { scope: "row" }), at);
      const [middle, ...ends] = ["middle", "better", "worse"].map((each) => known && expected(at, n, each));
      const odds = known && !table(at).refusal(state.target) ? table(at).probability(n, state.target) : null;
      const cells = known
        ? [about(middle), ends.sort((a, b) => a - b).map(about).join(" – "), odds === null ? "–" : chance(odds)]
        : ["–", `known from ${count(first)} to ${count(last)}`, "–"];
      const made = element("tr");
      made.append(name, ...cells.map((text) => element("td", text)));
      return made;
    };
    const short = group().short.map(({ name }) => {
      const made = element("tr");
      made.append(element("th", `✖ ${name}`, { scope: "row" }), element("td", "too few sizes to plan", { colspan: 3 }));
      return made;
    });
    get("readout").tBodies[0].replaceChildren(...shown().map(row), ...short);
    for (const old of get("plot").querySelectorAll(".cursor")) old.remove();
    const at = scale.x.to(n);
    if (at > scale.right || at < scale.left) return;
    const node = (name, attributes) => get("plot").append(drawn(name, { class: "cursor", ...attributes }));
    node("line", { x1: at, x2: at, y1: scale.top, y2: scale.bottom });
    for (const each of shown()) {
      const [first, last] = span(each);
      if (n >= first && n <= last) {
        node("circle", { cx: at, cy: scale.y.to(expected(each, n, "middle")), r: 4, stroke: colour(each) });
      }
    }
  }

  /* The N that was typed, if it is one. */
  function readCount() {
    const text = get("count").value.trim();
    const n = parsed(text);
    const [first, last] = span(state.model);
    const right = Number.isInteger(n) && n >= first && n <= last;
    get("count").setAttribute("aria-invalid", String(text !== "" && !right));
    const why = n > last ? table(state.model).doubt : "";
    tell("count-note", text === "" || right ? "" : `Give a whole number from ${count(first)} to ${count(last)}. ${why}`);
    if (text === "") state.count = null;
    else if (right) state.count = n;
  }

  function point(event) {
    const at = event.clientX - get("plot").getBoundingClientRect().left;
    const inner = at >= scale.left && at <= scale.right;
    state.hover = inner ? Math.max(1, Math.round(10 ** scale.x.back(at))) : null;
    showReadout();
  }

  function step(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const all = model(state.model).track.n.filter((n) => scale.x.to(n) <= scale.right);
    const [index] = place(all, reading());
    const next = by > 0 ? all.find((n) => n > reading()) : all[index] < reading() ? all[index] : all[index - 1];
    state.hover = null;
    state.count = Math.round(next || reading());
    showReadout();
    writeAddress();
  }

  // --- Controls --------------------------------------------------------------------------------

  const planned = () => data.groups.flatMap((g, at) => (g.models.length ? [[at, g.name]] : []));

  function listen() {
    const moved = (act) => (event) => {
      act(event);
      writeAddress();
    };
    on("slider", "input", calm(moved(() => ask(stops()[get("slider").value]))));
    on("target", "input", calm(moved(() => {
      const text = get("target").value.trim();
      ask(parsed(text), { text });
    })));
    on("cost", "input", calm(moved(answer)));
    on("count", "input", calm(moved(() => {
      readCount();
      showReadout();
    })));
    on("count", "change", () => showReadout());
    on("point", "change", moved(() => move(Number(get("point").value))));
    on("sure", "input", calm(moved(() => setSure(levels()[get("sure").value]))));
    on("model", "change", moved(() => {
      const before = state.model;
      const now = Number(get("model").value);
      choose(state.group, now, state.other === now ? before : state.other);
      askAgain();
    }));
    on("other", "change", moved(() => {
      state.other = Number(get("other").value);
      answer();
    }));
    for (const id of ["lines", "all"]) on(id, "change", draw);
    on("plot", "pointermove", calm(point));
    on("plot", "pointerleave", calm(() => {
      state.hover = null;
      showReadout();
    }));
    on("plot", "keydown", step);
    new ResizeObserver(calm(draw)).observe(get("plot"));
    addEventListener("hashchange", () => {
      if (readAddress()) get("planner").scrollIntoView();
    });
  }

  /* Rows in the order of a column: numbers first, by size; a second press turns it round. */
  function sortable(list) {
    const heads = [...list.tHead.rows[0].cells];
    heads.forEach((head, at) => head.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const key = (row) => Number(row.cells[at].dataset.value ?? NaN);
      const order = (a, b) =>
        Number.isNaN(key(a))
          ? a.cells[at].textContent.localeCompare(b.cells[at].textContent, "en", { numeric: true })
          : key(a) === key(b) ? 0 : key(a) - key(b);
      const rows = [...list.tBodies[0].rows].sort(order);
      list.tBodies[0].append(...(down ? rows.reverse() : rows));
      for (const each of heads) each.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
    }));
  }

  // --- Pictures --------------------------------------------------------------------------------

  let scene = null;

  function showScene(index) {
    scene = data.pictures[index];
    get("scene").value = String(index);
    get("size").max = String(scene.sizes.length - 1);
    get("size").value = "1";
    const rows = scene.truth.map((truth, image) => {
      const row = element("div", null, { class: "row" });
      const name = `Test image ${image + 1}`;
      row.append(picture(name, { src: truth, alt: name }, {}));
      for (const by of Object.keys(scene.frames)) {
        for (const kind of ["image", "error"]) {
          row.append(picture("", { src: "data:,", alt: "" }, { model: by, image, kind }));
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
      const [shot, caption] = box.children;
      const found = (scene.frames[name][n] || [])[Number(image)];
      shot.hidden = !found;
      box.classList.toggle("absent", !found);
      if (!found) {
        caption.textContent = `${name}: nothing at N = ${count(n)}`;
        continue;
      }
      const off = found.relative === null ? "unknown" : `${(100 * found.relative).toPrecision(3)}%`;
      const what = kind === "image" ? "reconstruction" : "error";
      shot.src = found[kind];
      shot.alt = `${what} of test image ${Number(image) + 1} by ${name} with N = ${n}: ${off} off`;
      caption.textContent = kind === "image" ? `${name}: ${off} off` : `${name}: its error`;
    }
  }

  // --- Theme, start ----------------------------------------------------------------------------

  const isDark = () =>
    (document.documentElement.dataset.theme ||
      (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const showTheme = () => {
    get("theme").textContent = isDark() ? "Light colours" : "Dark colours";
  };

  function start() {
    const last = data.pictures.length - 1;
    if (last >= 0) {
      fill(get("scene"), data.pictures.map((each, at) => [at, each.point]), last);
      get("scene-field").hidden = last === 0;
      on("scene", "change", () => showScene(Number(get("scene").value)));
      on("size", "input", showSize);
      get("gallery").hidden = false;
      showScene(last);
    }
    const points = planned();
    if (points.length) {
      fill(get("point"), points, state.group);
      get("point-field").hidden = points.length < 2;
      get("panel").hidden = false;
      listen();
      if (!readAddress()) {
        choose(state.group);
        ask(group().target);
      }
    }
    if (get("every")) sortable(get("every"));
    get("theme").hidden = false;
    on("theme", "click", () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      showTheme();
      if (points.length) writeAddress();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
    showTheme();
  }

  start();
})();
