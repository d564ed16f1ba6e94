/* What the page shows: controls, answers, curves, pictures. The answers are table.js's. */
(function () {
  "use strict";

  const data = JSON.parse(document.getElementById("data").textContent);
  const { open, place, value, chance, most, times, count } = window.koriskTable;
  const SERIES = 8; // colours there are
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
    select.replaceChildren(
      ...names.map(([key, text]) => element("option", text, { value: String(key) })),
    );
    select.value = String(chosen);
  }

  function facts(list, pairs) {
    list.replaceChildren(
      ...pairs
        .filter(([, text]) => text)
        .map(([name, text]) => {
          const row = element("div");
          row.append(element("dt", name), element("dd", text));
          return row;
        }),
    );
  }

  /* Calls to the result run once a frame, however many there are. */
  function calm(act) {
    let waiting = false;
    return () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        act();
      });
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
    if (!opened.has(key)) opened.set(key, open(model(index).planner));
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

  function quantity() {
    const { metric, unit: measured } = model(0).planner;
    return metric || measured.noun;
  }

  // --- Answers ---------------------------------------------------------------------------------

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
    speakSoon();
  }

  /* What a screen reader says: short, and only when the slider rests. */
  let speaking = 0;

  function speakSoon() {
    clearTimeout(speaking);
    speaking = setTimeout(() => {
      const plan = state.answer;
      const said = plan
        ? table(state.model).sentence(plan, data.sentences)
        : get("refusal").textContent;
      if (get("spoken").textContent !== said) get("spoken").textContent = said;
    }, QUIET);
  }

  function showAnswer(plan) {
    const box = get("samples");
    const { samples, doubt } = plan;
    const safe = plan.safe["0.9"];
    get("samples-label").textContent = atOnce(plan) ? "Samples, at most" : "Samples";
    get("samples-label").hidden = Boolean(doubt);
    box.textContent = doubt ? "No answer" : samples === null ? "not reachable" : count(samples);
    box.dataset.value = samples === null ? "" : String(samples);
    get("samples-chance").textContent =
      doubt ? "" : `chance ${chance(samples === null ? plan.reach : plan.chance)}`;
    get("words").textContent = table(state.model).sentence(plan, data.sentences);
    get("between").hidden = !plan.between;
    get("between").textContent =
      plan.between && `Interpolated between the answers to ${plan.between.map(value).join(" and ")}`;
    facts(get("facts"), doubt ? [] : [
      [
        inside(plan) ? "Means pass the target between N =" : "90% interval",
        samples === null || atOnce(plan) ? "" : interval(plan),
      ],
      ...(samples === null ? [] : enough(plan)),
      [
        `If the target is met by N = ${count(plan.by)} (chance ${chance(plan.byChance)})`,
        samples === null || safe !== null || inside(plan)
          ? ""
          : `${count(plan.ifReached["0.9"])} are enough with 90% probability`,
      ],
      ["Chance to reach it at all", chance(plan.reach)],
      ["Levels off at about", samples === null ? value(table(state.model).floor) : ""],
      ["Collect next, in all", plan.next === null ? "nothing" : count(plan.next)],
      ...costs(samples, safe),
    ]);
    get("odd").replaceChildren(...table(state.model).findings.map((each) => element("li", each)));
  }

  /* What is enough at each level; levels that no amount of data gives stand together. */
  function enough(plan) {
    const levels = Object.entries(plan.safe).map(([p, n]) => [`${Math.round(100 * p)}%`, n]);
    const none = levels.filter(([, n]) => n === null).map(([level]) => level);
    const asked = none.join(", ").replace(/, ([^,]*)$/, " or $1");
    return [
      ...levels
        .filter(([, n]) => n !== null)
        .map(([level, n]) => [`Enough with ${level} probability`, count(n)]),
      [
        `Enough with ${asked} probability`,
        none.length ? `no ${table(state.model).doubt ? "N inside the pilot" : "amount of data"}: ` +
          most(plan.reach, parseFloat(none[0]) / 100) : "",
      ],
    ];
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
    get("versus-title").textContent = `${first.name} against ${second.name}`;
    get("versus").dataset.value = "";
    const easier = against.unit.toError(state.target) > against.unit.toError(against.targets[0]);
    const refusal = easier ? "" : against.refusal(state.target);
    if (refusal) {
      facts(get("versus-facts"), [
        [`Samples of ${first.name}`, reached(state.answer)],
        [`Samples of ${second.name}`, refusal],
      ]);
      return;
    }
    const plan = against.plan(state.target);
    state.versus = plan;
    facts(get("versus-facts"), [
      [`Samples of ${first.name}`, reached(state.answer)],
      [`Samples of ${second.name}`, reached(plan)],
      [`Ratio, ${second.name} over ${first.name}`, ratio(state.answer, plan)],
      ["Two factors, fitted lines", factors("line", first, second)],
      ["Two factors, the paper's lines", factors("paper", first, second)],
      ["Crossover", crossover()],
    ]);
    get("versus").dataset.value = plan.samples === null ? "" : String(plan.samples);
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

  /* What Python computed of the two models that are asked about, and whether in that order. */
  function pair() {
    const [first, second] = [state.model, state.other];
    for (const each of group().pairs) {
      if (each.first === first && each.second === second) return [each, true];
      if (each.first === second && each.second === first) return [each, false];
    }
    return [null, true];
  }

  function ratio(plan, other) {
    if (plan.samples === null || other.samples === null) {
      return "unknown: one of the two has no number of samples";
    }
    if (atOnce(plan) && atOnce(other)) return "unknown: both meet it at their smallest N";
    const more = atOnce(plan) ? " or more" : atOnce(other) ? " or less" : "";
    const odds =
      `chance ${chance(other.chance)} for ${model(state.other).name}, ` +
      `${chance(plan.chance)} for ${model(state.model).name}`;
    const [known, inOrder] = pair();
    let range = "";
    if (known && known.ratio_range && state.target === group().target) {
      const [low, high] = known.ratio_range;
      const ends = inOrder ? [low, high] : [1 / high, 1 / low];
      range = `; 90%: ${times(ends[0])} to ${times(ends[1])} if both reach it`;
    }
    return `${times(other.samples / plan.samples)}${more} (${odds}${range})`;
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

  const crossover = () =>
    (pair()[0] || { crossover: "not computed here: ask korisk compare" }).crossover;

  function showExpected() {
    const text = get("count").value;
    const box = get("expected");
    box.textContent = "";
    get("count").setAttribute("aria-invalid", "false");
    if (text.trim() === "") return;
    const n = parsed(text);
    const asked = table(state.model);
    const [first, last] = [asked.sizes[0], asked.horizon];
    if (!(Number.isInteger(n) && n >= first && n <= last)) {
      get("count").setAttribute("aria-invalid", "true");
      box.textContent =
        `Give a whole number from ${count(first)} to ${count(last)}.` +
        (n > last && asked.doubt ? ` ${asked.doubt}` : "");
      return;
    }
    const [middle, ...ends] = ["middle", "better", "worse"].map((name) =>
      expected(state.model, n, name),
    );
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

  function chooseGroup(index) {
    state.group = index;
    state.model = 0;
    const names = group().models.map((each, at) => [at, each.name]);
    fill(get("model"), names, 0);
    fillOthers(names.length > 1 ? 1 : -1);
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
    const names = group().models.map((each, at) => [at, each.name]);
    const rest = names.filter(([at]) => at !== state.model);
    state.other = rest.some(([at]) => at === chosen) ? chosen : rest.length ? rest[0][0] : -1;
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
    const slide = calm(() => ask(stops()[Number(get("slider").value)], { keepSlider: true }));
    const type = calm(() => ask(parsed(get("target").value), { keepText: true }));
    const again = calm(answer);
    get("slider").addEventListener("input", slide);
    get("target").addEventListener("input", type);
    get("cost").addEventListener("input", again);
    get("currency").addEventListener("input", again);
    get("count").addEventListener("input", calm(showExpected));
    get("point").addEventListener("change", () => {
      chooseGroup(Number(get("point").value));
      draw();
    });
    get("model").addEventListener("change", () => {
      const before = state.model;
      state.model = Number(get("model").value);
      fillOthers(state.other === state.model ? before : state.other);
      showEnds();
      ask(state.target, { keepText: true });
      draw();
    });
    get("other").addEventListener("change", () => {
      state.other = Number(get("other").value);
      answer();
      draw();
    });
    for (const id of ["bands", "lines", "all"]) get(id).addEventListener("change", draw);
    get("reset").addEventListener("click", () => {
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
    const code = await new Response(stream).text();
    const script = element("script");
    script.textContent = code;
    document.head.append(script);
    return window.Plotly;
  }

  const colour = (index) => css(`--series-${index % SERIES}`);

  function shownModels() {
    const count = group().models.length;
    if (count <= 2 || get("all").checked) return [...Array(count).keys()];
    return [state.model, state.other].filter((at) => at >= 0).sort((a, b) => a - b);
  }

  const pale = (colour, share) => {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    return `rgba(${red},${green},${blue},${share})`;
  };

  function traces() {
    const made = [];
    for (const at of shownModels()) {
      const asked = at === state.model || at === state.other;
      if (get("bands").checked && (asked || shownModels().length <= CROWD)) {
        made.push(...band(model(at), at));
      }
      if (get("lines").checked) made.push(...paperLine(model(at), at));
      made.push(...curve(model(at), at));
    }
    for (const each of group().short) made.push(dots(each.name, each, css("--muted"), "x"));
    return made;
  }

  function band(each, at) {
    const [n, better, worse] = drawnPart(each, "n", "better", "worse");
    const common = { x: n, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
    return [
      { ...common, y: better },
      { ...common, y: worse, fill: "tonexty", fillcolor: pale(colour(at), 0.18) },
    ];
  }

  /* The parts of a track that are drawn. */
  function drawnPart({ track, planner }, ...names) {
    const far = track.n.filter((n) => n <= DRAWN * planner.last * (1 + 1e-9)).length;
    return names.map((name) => track[name].slice(0, far));
  }

  function curve(each, at) {
    const { last } = each.planner;
    const [n, middle] = drawnPart(each, "n", "middle");
    const part = (keep) => n.map((x, i) => (keep(x) ? middle[i] : null));
    const line = { x: n, mode: "lines", showlegend: false, meta: escaped(each.name) };
    const hover = "%{meta}<br>N = %{x:,.0f}<br>%{y:.4g}<extra></extra>";
    const made = [
      {
        ...line,
        y: part((x) => x <= last),
        line: { color: colour(at), width: 2 },
        hovertemplate: hover,
      },
      {
        ...line,
        y: part((x) => x >= last),
        line: { color: colour(at), width: 2, dash: "dash" },
        hovertemplate: hover,
      },
    ];
    if (each.measured.all.length) {
      made.push({
        x: each.measured.all_n,
        y: each.measured.all,
        mode: "markers",
        marker: { color: colour(at), size: 4, opacity: 0.35 },
        hoverinfo: "skip",
        showlegend: false,
      });
    }
    return [...made, dots(each.name, each.measured, colour(at), SYMBOLS[at % SYMBOLS.length])];
  }

  function dots(name, measured, fill, symbol) {
    return {
      x: measured.n,
      y: measured.mean,
      mode: "markers",
      meta: escaped(name),
      marker: { color: fill, size: 9, symbol },
      hovertemplate: "%{meta}, measured<br>N = %{x:,.0f}<br>%{y:.4g}<extra></extra>",
    };
  }

  function paperLine(each, at) {
    const found = each.lines.paper;
    if (!found) return [];
    const [x] = drawnPart(each, "n");
    const { fromError } = table(at).unit;
    const y = x.map((n) => fromError(found.floor + (found.slope * Math.log(n)) / n));
    return [
      {
        x,
        y,
        mode: "lines",
        line: { color: colour(at), width: 1.5, dash: "longdashdot" },
        hoverinfo: "skip",
      },
    ];
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
    const plans = [
      [state.answer, state.model],
      [state.versus, state.other],
    ];
    for (const [plan, at] of plans) {
      if (!plan || plan.samples === null) continue;
      const [n, agrees] = [plan.samples, onCurve(plan, at)];
      const side = Math.log10(n) > (across[0] + across[1]) / 2 ? "right" : "left";
      const style = { color: colour(at), width: 2, dash: agrees ? "dot" : "longdash" };
      shapes.push({ ...line, line: style, yref: "paper", y0: 0, y1: 1, x0: n, x1: n });
      annotations.push({
        x: Math.log10(n),
        yref: "paper",
        y: 1,
        yshift: at === state.model ? 0 : 16,
        showarrow: false,
        xanchor: side,
        yanchor: "bottom",
        text:
          `${agrees || plan.reach >= SURE ? "" : "if reached: "}N = ${count(n)}, ` +
          `chance ${chance(plan.chance)}`,
        font: { color: colour(at), size: 12 },
      });
    }
    return { shapes, annotations };
  }

  /* Whether the curve that is drawn passes the target at the plan's N, within a few per cent. */
  function onCurve(plan, at) {
    const { toError } = table(at).unit;
    const [error, goal] = [(n) => toError(expected(at, n, "middle")), toError(plan.target)];
    return (
      inside(plan) ||
      (error(plan.samples / NEAR) * NEAR >= goal && error(plan.samples * NEAR) / NEAR <= goal)
    );
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
    for (const each of group().short) {
      sizes.push(...each.n);
      heights.push(...each.mean);
    }
    heights.push(state.answer ? state.target : group().target);
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
    const { xaxis, yaxis } = get("plot")._fullLayout;
    const change = {};
    for (const [name, axis] of Object.entries({ xaxis, yaxis })) {
      if (axis.type === "log" && axis.dtick !== logTicks(axis.range)) {
        change[`${name}.dtick`] = logTicks(axis.range);
      }
    }
    if (Object.keys(change).length) library.relayout(get("plot"), change);
  }

  function layout() {
    const [across, up] = limits();
    const axis = { gridcolor: css("--line"), linecolor: css("--muted"), zeroline: false };
    const vertical = logarithmic()
      ? { type: "log", tickformat: "~g", dtick: logTicks(up) }
      : { type: "linear" };
    return {
      xaxis: {
        ...axis,
        type: "log",
        tickformat: ",~r",
        dtick: logTicks(across),
        range: across,
        title: { text: "training samples N" },
      },
      yaxis: {
        ...axis,
        ...vertical,
        range: up,
        automargin: true,
        title: { text: escaped(quantity()) },
      },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: css("--text"), family: css("--font"), size: 13 },
      margin: { l: 56, r: 12, t: 40, b: 48 },
      showlegend: false, // a list below the plot has room for any number of names
      dragmode: matchMedia("(pointer: fine)").matches ? "zoom" : false,
      ...marks(),
      hovermode: "closest",
      uirevision: `${state.group} ${resets}`,
    };
  }

  function draw() {
    if (!library) return;
    const names = shownModels().map((at) => model(at).name);
    showLegend();
    get("plot").setAttribute(
      "aria-label",
      `${quantity()} over training samples N at ${group().name}, for ${names.join(", ")}; ` +
        "the figures stand in the tables",
    );
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
    const entries = shownModels().map((at) =>
      entry(SIGNS[at % SIGNS.length], colour(at), model(at).name),
    );
    for (const each of group().short) {
      entries.push(entry("✖", css("--muted"), `${each.name} (too few sizes to plan)`));
    }
    if (get("lines").checked) entries.push(entry("– ·", css("--text"), "floor + σ log N / N"));
    get("legend").replaceChildren(...entries);
    const doubts = shownModels().map(model).filter((each) => each.planner.doubt);
    get("doubts").replaceChildren(
      ...doubts.map((each) => element("li", `${each.name}: ${each.planner.doubt}`)),
    );
    get("doubts").hidden = !doubts.length;
  }

  function markTarget() {
    if (!library) return;
    const [low, high] = get("plot")._fullLayout.yaxis.range;
    const height = logarithmic() ? Math.log10(state.target) : state.target;
    if (height < low || height > high) draw(); // with limits that have room for it
    else library.relayout(get("plot"), marks());
  }

  async function startDrawing() {
    try {
      library = await unpack();
    } catch (error) {
      delete document.documentElement.dataset.draws; // the still picture comes back
      get("drawing").hidden = true;
      return;
    }
    draw();
    get("plot").on("plotly_relayout", tickAgain);
    document.documentElement.dataset.drawn = "yes";
  }

  /* The library takes a moment to start: not before curves come near, so that answers come first. */
  function drawWhenNear() {
    if (!window.DecompressionStream || !window.IntersectionObserver) return; // an old browser
    document.documentElement.dataset.draws = "yes";
    get("drawing").hidden = false;
    const observer = new IntersectionObserver(
      (seen) => {
        if (!seen.some((each) => each.isIntersecting)) return;
        observer.disconnect();
        startDrawing();
      },
      { rootMargin: "400px" },
    );
    observer.observe(get("plot"));
  }

  // --- Pictures --------------------------------------------------------------------------------

  let scene = null;

  function chooseScene(index) {
    scene = data.pictures[index];
    const slider = get("size");
    slider.max = String(scene.sizes.length - 1);
    slider.value = String(Math.min(1, scene.sizes.length - 1));
    const rows = scene.truth.map((truth, image) => {
      const row = element("div", null, { class: "row" });
      row.append(framedPicture(`Test image ${image + 1}`, truth, `test image ${image + 1}`));
      for (const name of Object.keys(scene.frames)) {
        row.append(...["image", "error"].map((kind) => emptyPicture(name, image, kind)));
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

  function framedPicture(words, source, alternative) {
    const box = element("figure");
    box.append(element("img", null, { src: source, alt: alternative }));
    box.append(element("figcaption", words));
    return box;
  }

  function emptyPicture(name, image, kind) {
    const box = framedPicture("", "data:,", "");
    Object.assign(box.dataset, { model: name, image: String(image), kind });
    return box;
  }

  function showSize() {
    const n = scene.sizes[Number(get("size").value)];
    const words = n === 0 ? "none, untrained" : count(n);
    get("size-text").textContent = words;
    get("size").setAttribute("aria-valuetext", words);
    for (const box of get("frames").querySelectorAll("figure[data-model]")) showFrame(box, n);
  }

  function showFrame(box, n) {
    const { model: name, image, kind } = box.dataset;
    const [picture, caption] = [box.querySelector("img"), box.querySelector("figcaption")];
    const found = (scene.frames[name][n] || [])[Number(image)];
    picture.hidden = !found;
    box.classList.toggle("absent", !found);
    if (!found) {
      caption.textContent = `${name}: nothing at N = ${count(n)}`;
      return;
    }
    const off = found.relative === null ? "unknown" : `${(100 * found.relative).toPrecision(3)}%`;
    picture.src = found[kind];
    caption.textContent = kind === "image" ? `${name}: ${off} off` : `${name}: its error`;
    picture.alt =
      `${kind === "image" ? "reconstruction" : "error"} of test image ${Number(image) + 1} by ` +
      `${name} with N = ${n}: ${off} off`;
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
    const planned = data.groups
      .map((each, at) => [at, each.name])
      .filter(([at]) => data.groups[at].models.length);
    if (planned.length) {
      fill(get("point"), planned, state.group);
      get("point-field").hidden = planned.length < 2;
      get("panel").hidden = false;
      listen();
      chooseGroup(state.group);
      drawWhenNear();
    }
    if (data.pictures.length) {
      fill(get("scene"), data.pictures.map((each, at) => [at, each.point]), data.pictures.length - 1);
      get("scene-field").hidden = data.pictures.length < 2;
      get("scene").addEventListener("change", () => chooseScene(Number(get("scene").value)));
      get("size").addEventListener("input", showSize);
      get("gallery").hidden = false;
      chooseScene(data.pictures.length - 1);
    }
  }

  start();
})();
