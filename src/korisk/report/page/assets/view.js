/* What the page shows: Python's answer to each stop of the sliders, looked up, and its chart. */
(function () {
  "use strict";

  const data = JSON.parse(document.getElementById("data").textContent);
  const SIGNS = "●■◆▲▼"; // of models, and the same to be drawn
  const SHAPES = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M-4-4h8v8h-8", "M0-6L6 0 0 6-6 0", "M0-5L5 4H-5", "M0 5L5-4H-5"];
  const CROSS = "M-4-4L4 4M-4 4L4-4"; // of curves that are too short to plan
  const CROWD = 8; // models beyond which only those that are asked about have bands
  const QUIET = 600; // milliseconds until an answer is spoken,
  const SETTLED = 150; // and until it is in the address
  const REACHES = [16, 64, 256, 1024, Infinity]; // times the pilot: where the chart ends, the first that fits
  const HATCHES = [45, -45, 0, 90, 20, -20, 70, -70]; // degrees, of the bands of forecasts
  const MANTISSAS = [[1, 1.5, 2, 3, 4, 5, 7], [1, 2, 5], [1, 3], [1]]; // of ticks, densest first
  const ROWS = 2; // of the table: round targets on either side of the one that is asked about

  const get = (id) => document.getElementById(id);
  const on = (id, event, act) => get(id).addEventListener(event, act);

  // Indices of the group, of two models, of a target and of a level; and the N that is read off.
  const state = { group: data.start, model: 0, other: -1, stop: 0, level: data.level, n: null };

  // --- Small helpers ---------------------------------------------------------------------------

  function element(name, text, attributes, node = document.createElement(name)) {
    if (text !== undefined && text !== null) node.textContent = text;
    for (const [key, content] of Object.entries(attributes || {})) node.setAttribute(key, content);
    return node;
  }

  const drawn = (name, attributes, text) =>
    element(name, text, attributes, document.createElementNS("http://www.w3.org/2000/svg", name));

  const count = (n) => (n === null ? "∞" : Math.round(n).toLocaleString("en"));
  const about = (x) => (x === null ? "–" : String(Number(x.toPrecision(3)))); // of what is only drawn
  const chance = (p) => (p < 0.01 ? "below 1%" : p > 0.99 ? "above 99%" : `${Math.round(100 * p)}%`);

  function fill(select, names, chosen) {
    select.replaceChildren(...names.map(([key, text]) => element("option", text, { value: String(key) })));
    select.value = String(chosen);
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
    return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(dotted) ? Number(dotted) : NaN;
  }

  /* The index and the share of the way to the next at which x lies among ascending values. */
  function place(ascending, x) {
    let low = 0, high = ascending.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (ascending[middle] <= x) low = middle;
      else high = middle;
    }
    const wide = ascending[high] - ascending[low];
    const share = wide > 0 ? (x - ascending[low]) / wide : Number(x >= ascending[low]);
    return [low, Math.min(Math.max(share, 0), 1)];
  }

  // --- What is asked, and the answer -----------------------------------------------------------

  const group = () => data.groups[state.group];
  const model = (at) => group().models[at];
  const names = () => group().models.map((each, at) => [at, each.name]);
  const planned = () => data.groups.flatMap((each, at) => (each.models.length ? [[at, each.name]] : []));
  const goal = (stop = state.stop) => `${group().quantity} ${group().texts[stop]}`;
  const levelText = () => `${Number((100 * data.levels[state.level]).toPrecision(4))}%`;
  const answerOf = (at, stop = state.stop) => model(at).answers[stop];
  const said = (at, answer) => model(at).texts[answer];

  /* The models that are asked about, with the answer and what is said at the level. */
  const asked = () =>
    [state.model, state.other].filter((at) => at >= 0).map((at) => {
      const answer = answerOf(at);
      return { at, answer, now: answer.at[state.level] };
    });

  /* The stop for a target: its own, or the next harder one; -1 beyond both ends, NaN without one. */
  function stopFor(target) {
    const { targets } = group();
    const rising = targets.at(-1) > targets[0];
    const easier = (a, b) => (rising ? a < b : a > b);
    if (Number.isNaN(target) || easier(target, targets[0])) return -1;
    return targets.findIndex((each) => !easier(each, target));
  }

  function choose(at, first, other = -1) {
    state.group = at;
    const all = names();
    state.model = Math.min(first ?? 0, all.length - 1);
    const rest = all.filter(([each]) => each !== state.model);
    [state.other] = rest.find(([each]) => each === other) || rest[0] || [-1];
    get("point").value = String(at);
    fill(get("model"), all, state.model);
    fill(get("other"), rest, state.other);
    for (const id of ["model-field", "other-field"]) get(id).hidden = all.length < 2;
    get("all-field").hidden = all.length <= 2;
    get("target-label").textContent = `Target (${group().quantity})`;
    get("error-head").textContent = group().quantity;
    get("slider").max = String(group().targets.length - 1);
    get("easy").textContent = `easier: ${group().texts[0]}`;
    get("hard").textContent = `harder: ${group().texts.at(-1)}`;
    get("sure").max = String(data.levels.length - 1);
    get("legend").textContent = group().legend;
  }

  /* A target that has no answer leaves the last one where it is, and says so. */
  function ask(text) {
    const target = typeof text === "number" ? text : parsed(text);
    const stop = stopFor(target);
    const [easiest, hardest] = [group().texts[0], group().texts.at(-1)];
    let note = "";
    if (stop < 0) {
      note = Number.isNaN(target) ? `“${text}” is no number.` : `This page answers targets from ${easiest} to ${hardest}; ask korisk plan for others.`;
      note += ` The answer is still that to ${group().texts[state.stop]}.`;
    } else {
      state.stop = stop;
      if (target !== group().targets[stop]) note = `The next harder target answered here is ${group().texts[stop]}.`;
    }
    get("target").setAttribute("aria-invalid", String(stop < 0));
    tell("refusal", note);
    answer();
    return note;
  }

  function typed(target) {
    get("target").value = group().texts.find((text) => Number(text) === target) ?? String(target); // 2.7e-05 is short
    return ask(target);
  }

  /* Another point: model, target and level stay, and what cannot is said. */
  function move(at, why = []) {
    const before = group();
    const target = before.targets[state.stop];
    const own = model(state.model).name, other = model(state.other)?.name;
    const find = (name) => data.groups[at].models.findIndex((each) => each.name === name);
    choose(at, find(own) < 0 ? undefined : find(own), find(other));
    state.n = null;
    if (find(own) < 0) why.push(`${group().name} has no ${own}; shown is ${model(state.model).name}.`);
    const same = group().quantity === before.quantity;
    if (!same) why.push(`${group().name} is measured in ${group().quantity}, so its target is another.`);
    const fits = same && stopFor(target) >= 0;
    if (same && !fits) why.push(`${group().name} has no answer for ${target}.`);
    const note = typed(fits ? target : group().targets[group().start]);
    tell("refusal", [...why, note].filter(Boolean).join(" "));
  }

  let writing = 0;

  function writeAddress() {
    const told = { point: group().name, model: model(state.model).name, with: model(state.other)?.name };
    Object.assign(told, { target: group().targets[state.stop], sure: data.levels[state.level] });
    const kept = Object.entries(told).filter(([, text]) => text !== undefined);
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
    const address = new URLSearchParams(location.hash.slice(1));
    if (!location.hash.includes("=")) return false;
    const unknown = [];
    const find = (name, among) => {
      if (!address.has(name)) return undefined;
      const [found] = among.find(([, each]) => String(each) === address.get(name)) || [];
      if (found === undefined) unknown.push(`${name} “${address.get(name)}”`);
      return found;
    };
    const before = asked().map(({ at }) => model(at).name);
    const at = find("point", planned()) ?? state.group;
    if (at !== state.group) state.stop = data.groups[at].start;
    const among = data.groups[at].models.map((each, index) => [index, each.name]);
    const stays = (name) => among.find(([, each]) => each === name)?.[0]; // the same at another point
    choose(at, find("model", among) ?? stays(before[0]), find("with", among) ?? stays(before[1]));
    state.level = find("sure", data.levels.map((each, index) => [index, each])) ?? state.level;
    const wanted = address.get("target");
    const note = wanted === null || stopFor(parsed(wanted)) >= 0 ? "" : `target “${wanted}”`;
    const missing = [...unknown, note].filter(Boolean).join(" and ");
    const next = typed(wanted === null || note ? group().targets[state.stop] : parsed(wanted));
    tell("refusal", missing ? `The address asks for ${missing}, which this page does not have.` : next);
    return true;
  }

  let speaking = 0;

  /* Everything that changes with the question. A screen reader speaks when the sliders rest. */
  function answer() {
    get("slider").value = String(state.stop);
    get("slider").setAttribute("aria-valuetext", goal());
    get("sure").value = String(state.level);
    get("sure-text").textContent = `${levelText()} sure`;
    get("sure").setAttribute("aria-valuetext", `${levelText()} sure`);
    const both = asked(), [own, other] = both;
    const saving = other && pairSaving();
    const ratio = data.opens === "ratio" && saving;
    const point = planned().length > 1 ? `${group().name}, ` : "";
    const why = state.stop === group().start && group().why ? ` (${group().why})` : "";
    get("advice").setAttribute("aria-busy", "true");
    get("question").textContent = (data.question || model(own.at).question).replace("{goal}", goal());
    get("headline").textContent = ratio ? saving.words : said(own.at, own.now.sentence);
    get("headline").classList.toggle("unlikely", Boolean(ratio) && !saving.likely);
    get("headline").dataset.n = own.now.n ?? "";
    get("headline").dataset.action = own.now.action;
    const record = ratio ? saving.record : said(own.at, own.now.record);
    const once = (each) => (each === record ? "" : each); // what holds for all stands once
    const first = ratio ? both.find(({ at }) => at === saving.better) : own; // what to do next is with this one
    const step = (each) => said(each.at, each.now.next);
    const line = (each) => [said(each.at, each.now.told), each === first ? "" : ratio && first ? step(each).replace(/^[^:]*: /, () => data.chosen) : step(each), said(each.at, each.answer.odds), once(said(each.at, each.now.record))].filter(Boolean).join(" ");
    get("next").textContent = !first ? data.next : ratio ? step(first).replace(":", () => `, with ${model(first.at).name}:`) : step(own);
    get("record").textContent = record;
    get("odds").textContent = ratio ? "" : `${said(own.at, own.answer.odds)} ${point || why ? `For ${point}${goal()}${why}.` : ""}`.trim();
    const rest = ratio ? [...new Set([first || own, ...both])] : other ? [other] : [];
    const last = ratio ? [element("li", pair().crossover)] : saving ? [element("li", `${saving.words} ${once(saving.record)}`.trimEnd(), { class: saving.likely ? "" : "unlikely" })] : [];
    get("others").replaceChildren(...rest.map((each) => {
      const item = named(element("li"), each.at, ": ");
      item.append(line(each));
      return item;
    }), ...last);
    clearTimeout(speaking);
    speaking = setTimeout(() => get("advice").removeAttribute("aria-busy"), QUIET);
    // What holds for both models stands once, and without a name.
    const told = asked().map(({ at, now }) => now.reasons.map((each) => said(at, each)));
    const shared = told[0].filter((reason) => !other || told[1].includes(reason));
    const reasons = asked().flatMap(({ at }, row) =>
      told[row].filter((reason) => !shared.includes(reason)).map((reason) => `${model(at).name}: ${reason}`));
    get("reasons").replaceChildren(...[...reasons, ...shared].map((reason) => element("li", reason)));
    showNumbers();
    draw();
  }

  /* What Python computed of the two models. */
  const pair = () =>
    group().pairs.find((each) =>
      [each.first, each.second].every((at) => at === state.model || at === state.other),
    ) || {};

  function pairSaving() {
    const { first, second, savings, likely, records, better } = pair();
    const at = state.stop;
    return savings ? { words: savings[at], likely: likely[at], record: records[at], better: [first, second][better[at]] } : null;
  }

  /* The numbers of samples at the target, and at round ones on both sides. */
  function showNumbers() {
    const { round } = group();
    const [easier, harder] = [round.filter((at) => at < state.stop), round.filter((at) => at > state.stop)];
    const stops = [...easier.slice(-ROWS), state.stop, ...harder.slice(0, ROWS)];
    get("samples").tBodies[0].replaceChildren(...stops.flatMap((stop) => asked().map(({ at }) => {
      const row = element("tr", null, stop === state.stop ? { class: "asked" } : {});
      row.append(element("th", group().texts[stop], { scope: "row" }), named(element("td"), at));
      row.append(...answerOf(at, stop).cells.map((text) => element("td", text, { class: "number" })));
      return row;
    })));
  }

  // --- The chart -------------------------------------------------------------------------------

  const colour = (at) => `var(--series-${at % 8})`; // as many as the style has

  /* A model's name behind its sign. */
  function named(box, at, end = "") {
    const sign = element("span", SIGNS[at % SIGNS.length], { "aria-hidden": "true" });
    sign.style.color = colour(at);
    box.append(sign, ` ${model(at).name}${end}`);
    return box;
  }

  function shown() {
    const all = [...group().models.keys()];
    return all.length <= 2 || get("all").checked ? all : asked().map(({ at }) => at);
  }

  /* A model's forecast at N, or an end of its band: in straight lines of the chart. */
  function expected(at, n, name) {
    const { track } = model(at);
    const [index, share] = place(track.n.map(Math.log), Math.log(n));
    const [a, b] = track[name].slice(index, index + 2);
    return group().logarithmic ? a ** (1 - share) * b ** share : (1 - share) * a + share * b;
  }

  /* The N of a model's curve of chances, and the probability that the target is met by N. */
  function met(at, n) {
    const one = model(at);
    one.steps ??= new Uint16Array(Uint8Array.from(atob(one.chances), (letter) => letter.charCodeAt(0)).buffer);
    const wide = one.shares.length, [low, high] = [one.first, one.horizon].map(Math.log);
    const [first, most] = one.ends.slice(2 * state.stop, 2 * state.stop + 2);
    const logs = Array.from(one.steps.slice(state.stop * wide, (state.stop + 1) * wide), (step) => low + ((high - low) * step) / 65535);
    if (Math.log(n) < logs[0]) return first;
    const [index, part] = place(logs, Math.log(n) + 1e-9);
    return first + ((1 - part) * one.shares[index] + part * one.shares[index + 1]) * (most - first);
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
      const marks = [];
      for (let power = Math.floor(low); power <= high; power += 1) {
        for (const mantissa of mantissas) marks.push(Number(`${mantissa}e${power}`));
      }
      const inner = marks.filter((v) => v >= 10 ** low && v <= 10 ** high);
      if (inner.length > 1 && inner.length <= room) return inner;
    }
    const powers = log && high - low > 1; // too many decades for a tick at each
    const [from, to] = log && !powers ? [10 ** low, 10 ** high] : [low, high];
    const rough = (to - from) / room;
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = powers ? Math.ceil(rough) : [1, 2, 5, 10].map((k) => k * unit).find((each) => each >= rough);
    const marks = [];
    for (let k = Math.ceil(from / step); k * step <= to; k += 1) marks.push(powers ? 10 ** (k * step) : k * step);
    return marks;
  }

  // --- One style of learning curves, as korisk/report/figures/panels.py draws them --------------

  /* Shapes of one chart between its axes; they are put into it at the end, all at once. */
  function pencil(x, y) {
    const shapes = [];
    const add = (...what) => shapes.push(drawn(...what));
    const path = (points, attributes) => {
      const d = points.map(([n, v]) => `${x.to(n).toFixed(1)} ${y.to(v).toFixed(1)}`).join("L");
      if (points.length > 1) add("path", { d: `M${d}`, fill: "none", ...attributes });
    };
    const line = (x1, y1, x2, y2, attributes) => add("line", { x1, y1, x2, y2, ...attributes });
    const words = (text, at, up, attributes) => add("text", { x: at, y: up, ...attributes }, text);
    return { x, y, shapes, add, path, line, words };
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
  function forecastCurve({ add, shapes, path }, { n, middle, better, worse }, shade, at, band) {
    const style = { "clip-path": "url(#inside)", "data-model": at };
    const zip = (values) => n.map((each, i) => [each, values[i]]).filter(([, v]) => v !== null);
    if (band) {
      const turn = HATCHES[at % HATCHES.length];
      const tile = { id: `hatch-${at}`, width: 7, height: 7, patternUnits: "userSpaceOnUse" };
      add("pattern", { ...tile, patternTransform: `rotate(${turn})` });
      shapes.at(-1).append(drawn("line", { x1: 0, y1: 0, x2: 0, y2: 7, stroke: shade, "stroke-width": 1.4 }));
      const around = [...zip(better), ...zip(worse).reverse()];
      path(around, { ...style, class: "band", fill: shade });
      path(around, { ...style, class: "hatch", fill: `url(#hatch-${at})` });
    }
    path(zip(middle), { ...style, stroke: shade, class: "curve extrapolated" });
  }

  /* Grid, ticks and titles of both axes; no numbers beside a height that is taken. */
  function axes({ x, y, line, words }, { left, right, top, bottom, wide, high }, up, format, room, taken = -99) {
    for (const n of x.ticks(wide / 70)) {
      line(x.to(n), top, x.to(n), bottom, { class: "grid" });
      words(count(n), x.to(n), bottom + 17, { "text-anchor": "middle" });
    }
    for (const v of y.ticks(room)) {
      line(left, y.to(v), right, y.to(v), { class: "grid" });
      if (Math.abs(y.to(v) - taken) > 22) words(format(v), left - 6, y.to(v) + 4, { "text-anchor": "end" });
    }
    words("training samples N", (left + right) / 2, high - 6, { "text-anchor": "middle" });
    words(up, 4, top - 12, { class: "quiet axis-title" });
  }

  /* Put a chart's shapes into it; no words are cut at an edge. */
  function show(plot, shapes, wide) {
    plot.replaceChildren(...shapes);
    for (const each of plot.querySelectorAll("text")) {
      const { x: start, width } = each.getBBox();
      const off = Math.max(1 - start, 0) || Math.min(wide - 1 - start - width, 0);
      if (off) each.setAttribute("x", Number(each.getAttribute("x")) + off);
    }
  }

  let scale = null; // the axes that are drawn

  const within = (n, left, right, x) => Math.min(Math.max(n === null ? right : x.to(n), left), right);

  function draw() {
    const plot = get("plot");
    const [wide, high] = [plot.clientWidth, plot.clientHeight];
    if (!wide) return;
    plot.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    const marked = asked().filter(({ answer }) => answer.range);
    // The chart ends where the pilot has grown so many times that the answers lie in it.
    const last = Math.max(...shown().map((at) => model(at).last));
    // A target that is probably not reached has no place of its own: it would press the curves aside.
    const likely = marked.filter(({ answer }) => answer.likely);
    const far = Math.max(...likely.flatMap(({ answer, now }) => [...answer.range, answer.even, now.n]), 0);
    const reach = last * REACHES.find((each) => far <= 0.8 * each * last);
    const parts = shown().map((at) => {
      const { track, known, last: end } = model(at);
      const [from, to] = [known ? track.n.findIndex((n) => n >= end) : 0, track.n.filter((n) => n <= reach).length];
      return [at, Object.fromEntries(Object.keys(track).map((name) => [name, track[name].slice(from, to)]))];
    });
    const simulated = shown().flatMap((at) => (model(at).simulated ? [[model(at).simulated, at]] : []));
    const measured = [...shown().map((at) => model(at).measured), ...simulated.map(([each]) => each), ...group().short];
    const target = group().targets[state.stop];
    const sizes = [...parts.flatMap(([, part]) => part.n), ...measured.flatMap((each) => each.n)];
    const heights = [
      ...parts.flatMap(([at, part]) => [
        ...part.middle,
        ...part.better.concat(part.worse).filter((_, i) => part.n[i % part.n.length] <= 4 * model(at).last),
      ]),
      ...measured.flatMap((each) => [...each.mean, ...each.low, ...each.high]),
      target,
    ];
    const [left, right, top, bottom] = [68, wide - 10, 40, high - 40];
    const x = axis(sizes, true, left, right);
    const y = axis(heights, group().logarithmic, bottom, top);
    scale = { x, y, left, right, top, bottom, wide, high };

    const pen = pencil(x, y);
    const { add, line, words, shapes } = pen;
    const { last: end, known } = model(state.model);
    const edge = x.to(end);
    if (edge < right) add("rect", { x: edge, y: top, width: right - edge, height: bottom - top, class: "beyond" });
    const across = y.to(target);
    axes(pen, scale, group().quantity, about, high / 45, across);
    const rising = group().targets.at(-1) > group().targets[0];
    const corner = rising ? bottom - 7 : top + 16; // curves leave the corner above free, or that below
    if (edge - left > 150) words(known ? "measured" : "simulated", edge - 6, corner, { "text-anchor": "end", class: "quiet" });
    if (right - edge > 90) words("forecast", edge + 6, corner, { class: "quiet" });

    add("clipPath", { id: "inside" });
    shapes.at(-1).append(drawn("rect", { x: left, y: top, width: right - left, height: bottom - top }));
    for (const [at, part] of parts) {
      const among = at === state.model || at === state.other;
      forecastCurve(pen, part, colour(at), at, among || parts.length <= CROWD);
    }
    for (const at of shown()) {
      measuredCurve(pen, model(at).measured, colour(at), SHAPES[at % SHAPES.length], { "data-model": at });
    }
    for (const [each, at] of simulated) measuredCurve(pen, each, colour(at), CROSS, { class: "curve short" });
    for (const each of group().short) measuredCurve(pen, each, "var(--muted)", CROSS, { class: "curve short" });

    // The target, and on it the interval of each N, even odds, and N with a line down to it.
    line(left, across, right, across, { class: "target", id: "target-line" });
    marked.forEach(({ at, answer, now }, row) => {
      const style = { stroke: colour(at), "data-model": at };
      const [lower, upper] = answer.range;
      const [from, to] = [lower, upper].map((n) => within(n, left, right, x));
      line(from, across, to, across, { ...style, class: row ? "interval thin" : "interval" });
      if (upper === null || x.to(upper) > right) { // an open end
        add("path", { d: `M${right - 8} ${across - 6}L${right} ${across}L${right - 8} ${across + 6}`, fill: "none", ...style, class: "open-end" });
      }
      if (answer.even !== null && answer.even !== now.n) {
        add("circle", { ...style, cx: within(answer.even, left, right, x), cy: across, r: 4, fill: "var(--paper)", class: "mark" });
      }
      if (now.n === null) return;
      const middle = within(now.n, left, right, x);
      line(middle, top, middle, bottom, { ...style, class: "samples", "data-n": now.n });
      add("circle", { ...style, cx: middle, cy: across, r: 5, fill: colour(at), class: "mark" });
      const anchor = middle > (left + right) / 2 ? "end" : "start";
      const off = x.to(now.n) > right ? " →" : "";
      const label = `${SIGNS[at % SIGNS.length]} N ${now.n > model(at).first ? "=" : "≤"} ${count(now.n)} (${levelText()} sure)${off}`;
      words(label, middle, row ? top - 6 : top - 22, { fill: colour(at), "text-anchor": anchor, class: "label" });
    });
    // Beside the axis, where no curve runs over it.
    ["target", group().texts[state.stop]].forEach((text, row) => words(text, left - 6, across - 3 + 14 * row, { "text-anchor": "end", class: "target-text" }));
    show(plot, shapes, wide);
    const told = shown().map((at) => model(at).name).join(", ");
    plot.setAttribute("aria-label", `${group().quantity} over training samples N at ${group().name}, for ${told}`);
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
    const { add, path, line, words, shapes } = pen;
    axes(pen, { left, right, top, bottom, wide, high }, "chance that the target is met by N", (p) => `${100 * p}%`);
    const height = y.to(data.levels[state.level]);
    line(left, height, right, height, { class: "target", id: "sure-line" });
    for (const { at, answer, now } of asked().filter(({ answer: { range } }) => range)) {
      const { first, horizon } = model(at), style = { stroke: colour(at), "data-model": at };
      const points = [];
      for (let pixel = left; pixel <= right; pixel += 3) {
        const n = 10 ** x.back(pixel);
        if (n >= first && n <= horizon) points.push([n, met(at, n)]);
      }
      path(points, { ...style, class: "curve odds" });
      for (const [n, shade] of [[answer.even, "var(--paper)"], [now.n, colour(at)]]) {
        if (n === null || x.to(n) > right || (n === now.n && shade !== colour(at))) continue;
        // N is whole, so that its chance may lie above the level.
        add("circle", { ...style, cx: within(n, left, right, x), cy: y.to(met(at, n)), r: 4.5, fill: shade, class: "mark" });
      }
    }
    words(`${levelText()} sure`, left + 6, data.levels[state.level] > 0.8 ? height + 15 : height - 6, { class: "quiet" });
    show(plot, shapes, wide);
    const told = asked().map(({ at, now }) => `${model(at).name} ${now.n === null ? "at no N" : `at N ${now.n > model(at).first ? "=" : "≤"} ${count(now.n)}`}`);
    plot.setAttribute("aria-label", `Chance that the target is met by N; ${levelText()} for ${told.join(", ")}`);
  }

  /* Errors, bands and chances at one N: the one under the pointer, the one typed, or the answer. */
  function showReadout() {
    const n = state.n || asked()[0].now.n || model(state.model).last;
    if (document.activeElement !== get("count")) get("count").value = String(n);
    const row = (at) => {
      const { first, horizon } = model(at);
      const known = n >= first && n <= horizon;
      const [middle, ...ends] = ["middle", "better", "worse"].map((each) => known && expected(at, n, each));
      const cells = known
        ? [about(middle), ends.sort((a, b) => a - b).map(about).join(" – "), answerOf(at).range ? chance(met(at, n)) : "–"]
        : ["–", `known from ${count(first)} to ${count(horizon)}`, "–"];
      const line = element("tr");
      line.append(named(element("th", null, { scope: "row" }), at), ...cells.map((text) => element("td", text)));
      return line;
    };
    const short = group().short.map(({ name }) => {
      const line = element("tr");
      line.append(element("th", `✖ ${name}`, { scope: "row" }), element("td", "too few sizes to plan", { colspan: 3 }));
      return line;
    });
    get("readout").tBodies[0].replaceChildren(...shown().map(row), ...short);
    for (const old of get("plot").querySelectorAll(".cursor")) old.remove();
    const at = state.n ? scale.x.to(n) : -1; // the answer has its own line
    if (at > scale.right || at < scale.left) return;
    const node = (name, attributes) => get("plot").append(drawn(name, { class: "cursor", ...attributes }));
    node("line", { x1: at, x2: at, y1: scale.top, y2: scale.bottom });
    for (const each of shown()) {
      if (n < model(each).first || n > model(each).horizon) continue;
      node("circle", { cx: at, cy: scale.y.to(expected(each, n, "middle")), r: 4, stroke: colour(each) });
    }
  }

  function point(event) {
    const at = event.clientX - get("plot").getBoundingClientRect().left;
    const inner = at >= scale.left && at <= scale.right;
    state.n = inner ? Math.max(1, Math.round(10 ** scale.x.back(at))) : null;
    showReadout();
  }

  // --- Controls --------------------------------------------------------------------------------

  function listen() {
    const moved = (act) => (event) => {
      act(event);
      writeAddress();
    };
    on("slider", "input", calm(moved(() => typed(group().targets[get("slider").value]))));
    on("target", "input", calm(moved(() => ask(get("target").value))));
    on("point", "change", moved(() => move(Number(get("point").value))));
    on("sure", "input", calm(moved(() => {
      state.level = Number(get("sure").value);
      answer();
    })));
    on("model", "change", moved(() => {
      const [before, now] = [state.model, Number(get("model").value)];
      choose(state.group, now, state.other === now ? before : state.other);
      answer();
    }));
    on("other", "change", moved(() => {
      state.other = Number(get("other").value);
      answer();
    }));
    on("all", "change", draw);
    on("count", "input", calm(() => {
      state.n = parsed(get("count").value) || null;
      showReadout();
    }));
    on("plot", "pointermove", calm(point));
    on("plot", "pointerleave", calm(() => {
      state.n = null;
      showReadout();
    }));
    new ResizeObserver(calm(draw)).observe(get("plot"));
    addEventListener("hashchange", () => {
      if (readAddress()) get("advice").scrollIntoView();
    });
  }

  if (!planned().length) return;
  fill(get("point"), planned(), state.group);
  get("point-field").hidden = planned().length < 2;
  get("panel").hidden = false;
  choose(state.group);
  state.stop = group().start;
  listen();
  if (!readAddress()) typed(group().targets[state.stop]);
})();
