/* What the page shows: controls, answers, chart, pictures. The answers are table.js's. */
(function () {
  "use strict";

  const data = JSON.parse(document.getElementById("data").textContent);
  const { Table, place, value, chance, most, times, count } = window.koriskTable;
  const SIGNS = "●■◆▲▼"; // of models, and the same to be drawn
  const SHAPES = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M-4-4h8v8h-8", "M0-6L6 0 0 6-6 0", "M0-5L5 4H-5", "M0 5L5-4H-5"];
  const CROSS = "M-4-4L4 4M-4 4L4-4"; // of curves that are too short to plan
  const CROWD = 8; // models beyond which only those that are asked about have bands
  const QUIET = 600; // milliseconds until an answer is spoken,
  const SETTLED = 150; // and until it is in the address
  const REACHES = [16, 64, 256, 1024, Infinity]; // times the pilot: where the chart ends, the first that fits
  const NEAR = 1.05; // factor in N and in the error within which a curve passes through a mark
  const MANTISSAS = [[1, 1.5, 2, 3, 4, 5, 7], [1, 2, 5], [1, 3], [1]]; // of ticks, densest first

  const get = (id) => document.getElementById(id);
  const on = (id, event, act) => get(id).addEventListener(event, act);

  // `count` is the N that was typed, `hover` the one under the pointer.
  const state = { group: data.start, model: 0, other: -1, target: NaN, count: null, hover: null };
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
    if (!opened.has(key)) opened.set(key, new Table(model(at).planner));
    return opened.get(key);
  }

  /* The slider stops at targets of the table, whose answers are exact. */
  const stops = () => table(state.model).stops.map((at) => table(state.model).targets[at]);

  function positionOf(target) {
    const depth = (each) => Math.log(table(state.model).unit.toError(each));
    const away = stops().map((each) => Math.abs(depth(each) - depth(target)));
    return Math.max(away.indexOf(Math.min(...away)), 0);
  }

  function choose(at, asked = group().model, other = -1) {
    state.group = at;
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
  function askAgain() {
    const refusal = table(state.model).refusal(state.target);
    const nearest = stops()[positionOf(state.target)];
    const said = refusal && `${model(state.model).name}: ${refusal} Here is ${value(nearest)}.`;
    ask(refusal ? nearest : state.target, { said });
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
      n: state.count === null ? "" : String(state.count),
      cost: get("cost").value,
      unit: get("currency").value,
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
    state.group = find("point", planned()) ?? state.group;
    const kept = state.group === before.group && !Number.isNaN(state.target) ? before : {};
    choose(state.group, find("model", names()) ?? kept.model, find("with", names()) ?? kept.other);
    const refused = (target) => Boolean(table(state.model).refusal(target));
    state.target = refused(kept.target ?? NaN) ? group().target : kept.target;
    if (asked.has("target")) {
      const target = parsed(asked.get("target"));
      if (refused(target)) unknown.push(`target “${asked.get("target")}”`);
      else state.target = target;
    }
    for (const [name, id] of [["n", "count"], ["cost", "cost"], ["unit", "currency"]]) {
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
  const plans = { own: null, other: null };

  const atOnce = (plan) => plan.samples !== null && plan.samples <= tableOf(plan).sizes[0];
  const inside = (plan) => plan.samples !== null && plan.samples <= tableOf(plan).last;
  const tableOf = (plan) => table(plan === plans.other ? state.other : state.model);
  const conditional = (plan) => tableOf(plan).conditional(plan);
  const ifReached = (plan) => `if reached (chance at most ${chance(plan.reach)})`;

  /* The interval of N: its name and its ends. */
  function interval(plan) {
    if (inside(plan)) {
      return ["Means pass the target between N =", tableOf(plan).sides(plan.samples).map(count).join(" and ")];
    }
    if (plan.upper === null) return ["With 95% probability", `at least ${count(plan.lower)}`];
    return ["90% interval", `${count(plan.lower)} to ${count(plan.upper)}`];
  }

  function answer() {
    plans.own = table(state.model).plan(state.target);
    plans.other = null;
    let refusal = "";
    if (state.other >= 0) {
      const { unit, targets } = table(state.other);
      const easier = unit.toError(state.target) > unit.toError(targets[0]);
      refusal = easier ? "" : table(state.other).refusal(state.target);
      if (!refusal) plans.other = table(state.other).plan(state.target);
    }
    showAnswer(plans.own);
    showVersus(refusal);
    draw();
    clearTimeout(speaking); // a screen reader speaks when the slider rests
    speaking = setTimeout(() => {
      const said = get("words").textContent;
      if (get("spoken").textContent !== said) get("spoken").textContent = said;
    }, QUIET);
  }

  function showAnswer(plan) {
    const { samples, doubt, safe: { "0.9": safe } } = plan;
    const box = get("samples");
    const least = atOnce(plan) ? "at most " : "";
    box.textContent =
      doubt ? "No answer"
      : samples === null ? table(state.model).missed()
      : table(state.model).unlikely(plan) ? "probably not reached"
      : `${least}${count(samples)} sample${samples === 1 ? "" : "s"}`;
    box.classList.toggle("long", samples !== null && table(state.model).unlikely(plan));
    box.dataset.value = samples === null ? "" : String(samples);
    const odds = `chance ${chance(plan.chance)}`;
    get("samples-chance").textContent =
      doubt ? ""
      : samples === null ? `chance ${chance(plan.reach)}`
      : table(state.model).unlikely(plan) ? `chance at most ${chance(plan.reach)}`
      : conditional(plan) ? `${odds}, ${ifReached(plan)}`
      : odds;
    get("words").textContent = table(state.model).sentence(plan, data.sentences);
    const told = [[plans.own, state.model], [plans.other, state.other]].flatMap(([each, at]) =>
      each && each.between
        ? [`${model(at).name}: interpolated between the answers to ${each.between.map(value).join(" and ")}.`]
        : [],
    );
    if (!told.length && state.target === group().target && group().why) told.push(`The first target: ${group().why}.`);
    get("about").textContent = told.join(" ");
    const { floor, no_floor } = table(state.model);
    const none = table(state.model).doubt ? "no N inside the pilot" : "no amount of data";
    const enough = Object.entries(plan.safe).map(([p, n]) => [
      `Enough with ${Math.round(100 * p)}% probability`,
      n === null ? `${none}: ${most(plan.reach, Number(p))}` : count(n),
    ]);
    const partly = samples !== null && safe === null && !inside(plan);
    const [name, ends] = samples === null || atOnce(plan) ? ["", ""] : interval(plan);
    facts(get("facts"), doubt ? [] : [
      [name, ends],
      ...(samples === null ? [] : enough),
      [
        `If the target is met by N = ${count(plan.by)} (chance ${chance(plan.byChance)})`,
        partly ? `${count(plan.ifReached["0.9"])} are enough with 90% probability` : "",
      ],
      ["Chance to reach it at all", chance(plan.reach)],
      ["Levels off at about", samples === null && floor && !no_floor ? value(floor) : ""],
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

  function showVersus(refusal) {
    get("versus").hidden = state.other < 0;
    get("ratio").textContent = "";
    if (state.other < 0) return;
    const [first, second, plan] = [model(state.model), model(state.other), plans.other];
    const said = plan ? ratio(plans.own, plan) : refusal;
    get("versus").dataset.value = plan && plan.samples !== null ? String(plan.samples) : "";
    get("ratio").textContent = `Ratio of N, ${second.name} over ${first.name}: ${said}`;
    get("versus-title").textContent = `${first.name} against ${second.name}`;
    facts(get("versus-facts"), [
      [`Samples of ${first.name}`, reached(plans.own, state.model)],
      [`Samples of ${second.name}`, plan ? reached(plan, state.other) : refusal],
      ["Two factors, fitted lines", plan && factors("line", first, second)],
      ["Two factors, the paper's lines", plan && factors("paper", first, second)],
      ["Crossover", pair().crossover || "not computed here: ask korisk compare"],
    ]);
  }

  function reached(plan, at) {
    if (plan.doubt) return `no answer. ${plan.doubt}`;
    if (plan.samples === null) return `${table(at).missed()} (chance ${chance(plan.reach)})`;
    const words = atOnce(plan) ? "at most " : "";
    const [name, ends] = interval(plan);
    const also = atOnce(plan) ? "" : `; ${inside(plan) ? "between" : name[0].toLowerCase() + name.slice(1)} ${ends}`;
    const condition = conditional(plan) ? `${ifReached(plan)}, ` : "";
    return `${condition}${words}${count(plan.samples)} (chance ${chance(plan.chance)}${also})`;
  }

  /* What Python computed of the two models that are asked about. */
  const pair = () =>
    group().pairs.find((each) =>
      [each.first, each.second].every((at) => at === state.model || at === state.other),
    ) || {};

  function ratio(plan, other) {
    if (atOnce(plan) && atOnce(other)) return "unknown, since both meet it at their smallest N";
    const { first, ratio_range: known } = pair();
    let range = "";
    if (known && state.target === group().target) {
      const inverse = known.map((end) => end && 1 / end).reverse();
      const [low, high] = first === state.model ? known : inverse;
      if (low && high) range = `90%: ${times(low)} to ${times(high)}`;
      else range = `${low ? `at least ${times(low)}` : `at most ${times(high)}`} with 95% probability`;
    }
    if (plan.samples === null || other.samples === null) {
      return range || "unknown, since one of the two has no number of samples";
    }
    const more = atOnce(plan) ? " or more" : atOnce(other) ? " or less" : "";
    const odds =
      `chance ${chance(other.chance)} for ${model(state.other).name}, ` +
      `${chance(plan.chance)} for ${model(state.model).name}`;
    const both = !range && (conditional(plan) || conditional(other)) ? "if both reach it" : "";
    return `${times(other.samples / plan.samples)}${more} (${[odds, range, both].filter(Boolean).join("; ")})`;
  }

  /* Proposition 1, for lines floor + slope log N / N. */
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

  // --- The chart -------------------------------------------------------------------------------

  const colour = (at) => `var(--series-${at % 8})`; // as many as the style has
  const span = (at) => [table(at).sizes[0], table(at).horizon];

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

  /* Whether the curve that is drawn passes the target at the plan's N, within a few per cent. */
  function onCurve(plan, at) {
    const { toError } = table(at).unit;
    const [n, goal] = [plan.samples, toError(plan.target)];
    const error = (size) => toError(expected(at, size, "middle"));
    return inside(plan) || (error(n / NEAR) * NEAR >= goal && error(n * NEAR) / NEAR <= goal);
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

  let scale = null; // the axes that are drawn

  function draw() {
    const plot = get("plot");
    const [wide, high] = [plot.clientWidth, plot.clientHeight];
    if (!wide) return;
    plot.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    const marked = [[plans.own, state.model], [plans.other, state.other]].filter(
      ([plan]) => plan && plan.samples !== null,
    );
    // The chart ends where the pilot has grown so many times that the answers lie in it.
    const last = Math.max(...shown().map((at) => table(at).last));
    const far = Math.max(...marked.flatMap(([plan]) => [plan.samples, plan.upper || 0]), 0);
    const reach = last * REACHES.find((each) => far <= 0.8 * each * last);
    const parts = shown().map((at) => {
      const { track } = model(at);
      const size = track.n.filter((n) => n <= reach).length;
      const cut = (name) => track[name].slice(0, size);
      return [at, { n: cut("n"), middle: cut("middle"), better: cut("better"), worse: cut("worse") }];
    });
    const measured = [...shown().map((at) => model(at).measured), ...group().short];
    const sizes = [...parts.flatMap(([, part]) => part.n), ...measured.flatMap((each) => each.n)];
    const heights = [
      ...parts.flatMap(([at, part]) => [
        ...part.middle,
        ...part.better.concat(part.worse).filter((_, i) => part.n[i % part.n.length] <= 4 * table(at).last),
      ]),
      ...measured.flatMap((each) => each.mean),
      state.target,
    ];
    const [left, right, top, bottom] = [58, wide - 10, 40, high - 44];
    const x = axis(sizes, true, left, right);
    const y = axis(heights, logarithmic(), bottom, top);
    scale = { x, y, left, right, top, bottom };

    const made = [];
    const add = (...what) => made.push(drawn(...what));
    const path = (points, attributes) => {
      const d = points.map(([n, v]) => `${x.to(n).toFixed(1)} ${y.to(v).toFixed(1)}`).join("L");
      if (points.length > 1) add("path", { d: `M${d}`, fill: "none", ...attributes });
    };
    const line = (x1, y1, x2, y2, attributes) => add("line", { x1, y1, x2, y2, ...attributes });
    const words = (text, at, up, attributes) => add("text", { x: at, y: up, ...attributes }, text);

    // Axes, and where the pilot ends.
    const edge = x.to(table(state.model).last);
    if (edge < right) {
      const box = { x: edge, y: top, width: right - edge, height: bottom - top };
      add("rect", { ...box, class: "beyond" });
    }
    for (const n of x.ticks(wide / 70)) {
      line(x.to(n), top, x.to(n), bottom, { class: "grid" });
      words(count(n), x.to(n), bottom + 17, { "text-anchor": "middle" });
    }
    for (const v of y.ticks(high / 45)) {
      line(left, y.to(v), right, y.to(v), { class: "grid" });
      words(value(v), left - 6, y.to(v) + 4, { "text-anchor": "end" });
    }
    words("training samples N", (left + right) / 2, high - 6, { "text-anchor": "middle" });
    const { toError } = table(state.model).unit; // curves leave the corner above free, or that below
    const corner = toError(2) > toError(1) ? top + 16 : bottom - 7;
    words("measured", edge - 6, corner, { "text-anchor": "end", class: "quiet" });
    if (right - edge > 90) words("extrapolated", edge + 6, corner, { class: "quiet" });

    // Bands, curves, measured means.
    add("clipPath", { id: "inside" });
    made.at(-1).append(drawn("rect", { x: left, y: top, width: right - left, height: bottom - top }));
    for (const [at, { n, middle, better, worse }] of parts) {
      const asked = at === state.model || at === state.other;
      const style = { stroke: colour(at), "clip-path": "url(#inside)", "data-model": at };
      const zip = (values) => n.map((each, i) => [each, values[i]]).filter(([, v]) => v !== null);
      if (asked || parts.length <= CROWD) {
        const around = [...zip(better), ...zip(worse).reverse()];
        path(around, { ...style, class: "band", fill: colour(at), stroke: "none" });
      }
      const { last: end } = table(at);
      path(zip(middle).filter(([each]) => each <= end), { ...style, class: "curve" });
      path(zip(middle).filter(([each]) => each >= end), { ...style, class: "curve extrapolated" });
      const { paper } = model(at).lines;
      if (get("lines").checked && paper) {
        const { fromError } = table(at).unit;
        const bound = n.map((each) => fromError(paper.floor + (paper.slope * Math.log(each)) / each));
        path(zip(bound), { ...style, class: "paper" });
      }
    }
    const dots = (each, shade, d) => {
      const put = (n, v) => ({ transform: `translate(${x.to(n)} ${y.to(v)})`, fill: shade });
      each.all_n.forEach((n, i) => add("circle", { ...put(n, each.all[i]), r: 2, class: "single" }));
      each.n.forEach((n, i) => {
        add("path", { d, ...put(n, each.mean[i]), stroke: shade, class: "mean", "data-mean": each.mean[i] });
      });
    };
    for (const at of shown()) dots(model(at).measured, colour(at), SHAPES[at % SHAPES.length]);
    for (const each of group().short) dots(each, "var(--muted)", CROSS);

    // The target, and on it the interval of each N, N itself and a line down to it.
    const across = y.to(state.target);
    line(left, across, right, across, { class: "target", id: "target-line" });
    marked.forEach(([plan, at], row) => {
      const from = Math.min(Math.max(x.to(plan.samples), left), right);
      const ends = [plan.lower, plan.upper === null ? Infinity : plan.upper].map((n) =>
        Math.min(Math.max(n === Infinity ? right : x.to(n), left), right),
      );
      const style = { stroke: colour(at), "data-model": at };
      line(ends[0], across, ends[1], across, { ...style, class: row ? "interval thin" : "interval" });
      line(from, top, from, bottom, { ...style, class: "samples", "data-n": plan.samples });
      const hollow = conditional(plan) || !onCurve(plan, at);
      const face = hollow ? "var(--paper)" : colour(at);
      add("circle", { ...style, cx: from, cy: across, r: 5, fill: face, class: "mark" });
      const anchor = from > (left + right) / 2 ? "end" : "start";
      const condition = conditional(plan) ? `if reached (at most ${chance(plan.reach)}), ` : "";
      const off = plan.samples > 10 ** x.high ? " →" : "";
      const least = atOnce(plan) ? "≤" : "=";
      const said = `${SIGNS[at % SIGNS.length]} ${condition}N ${least} ${count(plan.samples)} (${chance(plan.chance)})${off}`;
      words(said, from, row ? top - 6 : top - 22, { fill: colour(at), "text-anchor": anchor, class: "label" });
    });
    words(`target ${value(state.target)}`, left + 5, across - 10, { class: "quiet", id: "target-text" });
    plot.replaceChildren(...made);
    for (const each of plot.querySelectorAll("text")) { // none is cut at an edge
      const { x: start, width } = each.getBBox();
      const off = Math.max(1 - start, 0) || Math.min(wide - 1 - start - width, 0);
      if (off) each.setAttribute("x", Number(each.getAttribute("x")) + off);
    }
    placeTarget(across);
    const told = shown().map((at) => model(at).name).join(", ");
    plot.setAttribute("aria-label", `${quantity()} over training samples N at ${group().name}, for ${told}`);
    showBars();
    showReadout();
    const doubts = shown().map(model).filter((each) => each.planner.doubt);
    get("doubts").hidden = !doubts.length;
    get("doubts").replaceChildren(
      ...doubts.map((each) => element("li", `${each.name}: ${each.planner.doubt}`)),
    );
  }

  /* The words on the target go where no curve is: to the left, the right or the middle, above the line or below. */
  function placeTarget(across) {
    const text = get("target-text");
    const { width } = text.getBBox();
    const { x, y, left, right, top, bottom } = scale;
    const crossed = (from, up) =>
      up - 12 < top || up > bottom - 4 ||
      shown().some((at) => {
        const [first, last] = span(at);
        for (let pixel = from; pixel <= from + width; pixel += 6) {
          const n = 10 ** x.back(pixel);
          const height = n >= first && n <= last ? y.to(expected(at, n, "middle")) : NaN;
          if (height > up - 18 && height < up + 8) return true;
        }
        return false;
      });
    const starts = [left + 5, right - width - 5, (left + right - width) / 2];
    const places = starts.flatMap((from) => [across - 10, across + 19].map((up) => [from, up]));
    const [from, up] = places.find((place) => !crossed(...place)) || places[0];
    text.setAttribute("x", from);
    text.setAttribute("y", up);
  }

  /* Each model's interval of N as a bar on the chart's axis; the pilot is the darker part. */
  function showBars() {
    const share = (n) => {
      const { to } = scale.x;
      return (100 * (Math.min(Math.max(to(n), scale.left), scale.right) - scale.left)) / (scale.right - scale.left);
    };
    const bar = ([plan, at]) => {
      const row = element("div", null, { class: "bar-row" });
      const name = named(element("span"), at);
      const track = element("span", null, { class: "track", "aria-hidden": "true" });
      track.style.setProperty("--pilot", `${share(table(at).last)}%`);
      if (plan.samples !== null) {
        const end = plan.upper === null ? 100 : share(plan.upper);
        const [body, dot] = [element("i"), element("b")];
        body.style.cssText = `left:${share(plan.lower)}%;width:${end - share(plan.lower)}%;background:${colour(at)}`;
        dot.style.cssText = `left:${share(plan.samples)}%;background:${colour(at)}`;
        track.append(body, dot);
      }
      const ends =
        plan.doubt ? "no answer"
        : plan.samples === null ? `${table(at).missed()} (${chance(plan.reach)})`
        : atOnce(plan) ? `≤ ${count(plan.samples)} (${chance(plan.chance)})`
        : (conditional(plan) ? `if reached (${chance(plan.reach)}): ` : "") +
          (plan.upper === null
            ? `${count(plan.samples)}, ≥ ${count(plan.lower)} (${chance(plan.chance)})`
            : `${count(plan.lower)} – ${count(plan.samples)} – ${count(plan.upper)} (${chance(plan.chance)})`);
      row.append(name, element("span", ends), track);
      return row;
    };
    const asked = [[plans.own, state.model], [plans.other, state.other]].filter(([plan]) => plan);
    get("bars").replaceChildren(...asked.map(bar));
  }

  // --- The chart at one N ----------------------------------------------------------------------

  const reading = () =>
    state.hover || state.count || plans.own.samples || table(state.model).last;

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
        ? [value(middle), ends.sort((a, b) => a - b).map(value).join(" – "), odds === null ? "–" : chance(odds)]
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
    for (const id of ["cost", "currency"]) on(id, "input", calm(moved(answer)));
    on("count", "input", calm(moved(() => {
      readCount();
      showReadout();
    })));
    on("count", "change", () => showReadout());
    on("point", "change", moved(() => {
      state.group = Number(get("point").value);
      state.count = null;
      choose(state.group);
      ask(group().target);
    }));
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
      document.documentElement.dataset.live = "yes"; // the answer in a sentence gives way
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
