// The planner's answers in the page: looked up in the table that planner.py computed for some
// hundred targets, and interpolated between two of them. There are no statistics here.

var koriskTable = (() => {
  "use strict";

  // ---- Numbers in words, as korisk/planning/words.py writes them ----

  /** A number with few digits: Python's f"{x:.{few}g}". */
  function general(x, few) {
    // Half way it rounds to the even digit, as Python does.
    const [exact, scale] = x.toExponential(40).split("e");
    const half = new RegExp(`^-?\\d\\.\\d{${few - 2}}[02468]50*$`).test(exact);
    if (half) x = Number(`${exact.slice(0, exact.indexOf(".") + few)}e${scale}`);
    const [digits, power] = x.toExponential(few - 1).split("e");
    if (power >= -4 && power < few) return String(Number(x.toPrecision(few)));
    const size = String(Math.abs(power)).padStart(2, "0");
    return `${Number(digits)}e${power < 0 ? "-" : "+"}${size}`;
  }

  const value = (x) => general(x, 4);

  // Half way it rounds to the even number, as Python does.
  const even = (x) => (x % 1 === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));

  /** A probability, without claiming certainty. */
  const chance = (p) => (p < 0.01 ? "below 1%" : p > 0.99 ? "above 99%" : `${even(100 * p)}%`);

  const count = (n) => (n === null ? "∞" : Math.round(n).toLocaleString("en"));
  const times = (x) => (x >= 10 ? count(even(x)) : general(x, 2));

  /** Python's f"{n:,}" for a count below 1e12, else with four digits. */
  const whole = (n) => (n < 1e12 ? count(n) : general(n, 4));

  /** Python's f"{x:,.6g}". */
  const price = (x) => {
    const text = general(x, 6);
    return text.includes("e") ? text : Number(text).toLocaleString("en", { maximumFractionDigits: 10 });
  };

  const level = (p) => `${general(100 * p, 4)}%`;
  const fill = (template, words) => template.replace(/\{(\w+)\}/g, (_, name) => words[name]);

  // ---- Units: how a metric becomes an error, and back ----

  const LAWS = {
    error: { toError: (x) => x, fromError: (e) => e },
    complement: { toError: (x) => 1 - x, fromError: (e) => 1 - e },
    percent: { toError: (x) => 100 - x, fromError: (e) => 100 - e },
    psnr: { toError: (x) => 10 ** (-x / 10), fromError: (e) => -10 * Math.log10(e) },
    squared: { toError: (x) => (x > 0 ? x * x : NaN), fromError: (e) => Math.sqrt(e) },
    negated: { toError: (x) => -x, fromError: (e) => -e },
    log10: { toError: (x) => 10 ** x, fromError: (e) => Math.log10(e) },
    ln: { toError: (x) => Math.exp(x), fromError: (e) => Math.log(e) },
    error_db: { toError: (x) => 10 ** (x / 10), fromError: (e) => 10 * Math.log10(e) },
  };

  // ---- The table ----

  /** The index and the share of the way to the next at which x lies among ascending values. */
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

  class Table {
    constructor(data, templates) {
      Object.assign(this, data, { templates });
      this.unit = LAWS[data.unit.law];
      this.depth = data.targets.map((target) => -Math.log(this.unit.toError(target)));
      const bytes = Uint8Array.from(atob(data.table), (letter) => letter.charCodeAt(0));
      const [low, high] = [data.first, data.horizon].map(Math.log);
      const steps = new Uint16Array(bytes.buffer);
      const logN = Array.from(steps, (step) => low + ((high - low) * step) / 65535);
      const wide = data.shares.length;
      this.rows = data.targets.map((_, row) => ({
        logN: logN.slice(row * wide, (row + 1) * wide),
        first: data.ends[2 * row], // probability at the first N,
        most: data.ends[2 * row + 1], // and the largest one
      }));
    }

    /** Why a target has no answer here, or nothing. */
    refusal(target) {
      const depth = -Math.log(this.unit.toError(target));
      const exact = this.targets.includes(target);
      if (exact || (depth >= this.depth[0] && depth <= this.depth.at(-1))) return "";
      const [easiest, hardest] = [this.targets[0], this.targets.at(-1)].map(value);
      return `This page answers targets from ${easiest} to ${hardest}; ask korisk plan for others.`;
    }

    /** Between which rows a target lies; an easier one than all counts as the easiest. */
    where(target) {
      const exact = this.targets.indexOf(target);
      if (exact >= 0) return { row: exact, share: 0 };
      const [row, share] = place(this.depth, -Math.log(this.unit.toError(target)));
      return { row, share };
    }

    /** A row, or what lies between two: sizes and probabilities in straight lines. */
    blend({ row, share }) {
      const [a, b] = [this.rows[row], this.rows[share ? row + 1 : row]];
      const mix = (x, y) => (1 - share) * x + share * y;
      return {
        logN: a.logN.map((x, at) => mix(x, b.logN[at])),
        first: mix(a.first, b.first),
        most: mix(a.most, b.most),
      };
    }

    /** The probability that a target is met by N. */
    probability(n, target) {
      const { logN, first, most } = this.blend(this.where(target));
      if (Math.log(n) < logN[0]) return first;
      const [at, part] = place(logN, Math.log(n) + 1e-9);
      const share = (1 - part) * this.shares[at] + part * this.shares[at + 1];
      return first + share * (most - first);
    }

    /** The smallest N with probability p; null where there is none. */
    crossing({ logN, first, most }, p) {
      if (p <= first) return this.first;
      if (p > most) return null;
      const [at, part] = place(this.shares, (p - first) / (most - first));
      return Math.ceil(Math.exp((1 - part) * logN[at] + part * logN[at + 1]) - 1e-3);
    }

    /**
     * The answer to a target at one of the table's levels, with the cost of a sample if it is known.
     * Sizes that do not exist, and infinite ones, are null.
     */
    plan(target, sure = 0.9, cost = null) {
      const { row, share } = this.where(target);
      const next = share ? row + 1 : row; // of two targets, the harder one
      const { answers } = this;
      const doubt = answers.doubt[next];
      const blend = share ? this.blend({ row, share }) : null;
      const read = (values, p) => (doubt ? null : blend ? this.crossing(blend, p) : values[row]);
      const samples = this.levels.map((p, at) => [p, read(answers.samples[at], p)]);
      const plan = {
        target,
        sure,
        cost,
        interpolated: share ? [this.targets[row], this.targets[next]] : null,
        between: answers.between[row],
        doubt: doubt ? this.doubts[doubt - 1] : "",
        reach: doubt ? null : blend ? blend.most : answers.reach[row],
        lower: read(answers.lower, 0.05),
        upper: read(answers.upper, 0.95),
        samples: Object.fromEntries(samples),
        even: read(answers.samples[this.levels.indexOf(0.5)], 0.5),
      };
      plan.n = plan.samples[sure];
      const collected = answers.collect[this.levels.indexOf(sure)];
      const other = this.others[answers.other[share < 0.5 ? row : next] - 1];
      const advised = plan.n !== null && collected[row] === "1" && collected[next] === "1";
      plan.advice = advised || !other ? this.collect(plan) : this.otherwise(plan, other);
      const related = share ? "" : answers.related[row]; // its numbers are those of one target
      plan.reasons = [...plan.advice.reasons, related, ...this.findings].filter(Boolean);
      return plan;
    }

    /** The advice to collect N, or that the pilot has it. */
    collect(plan) {
      const { n, target, sure, between } = plan;
      const already = this.known ? "already" : "already_rehearsed";
      const kind = n <= this.first ? already : n <= this.known ? "inside" : "collect";
      const said = fill(this.templates.advice[kind], { n: count(n), target: value(target), sure: level(sure) });
      const sentence = this.subject ? `${this.subject}: ${said}.` : `${said[0].toUpperCase()}${said.slice(1)}.`;
      const reasons = [];
      if (this.unit.toError(target) > this.easy) reasons.push(this.hint);
      if (kind === "inside" && between) {
        const [before, after] = between.map(count);
        reasons.push(fill(this.templates.between, { before, after }));
      } else if (kind === "collect" && this.known) {
        reasons.push(fill(this.templates.far, { times: general(n / this.known, 2), last: count(this.known) }));
      }
      return this.advice(plan, { action: "collect", n, sentence, reasons });
    }

    /** Other advice; why to measure depends on the level. */
    otherwise(plan, other) {
      if (other.action !== "measure") return this.advice(plan, other);
      const { no_number: none, too_far: far, then, near } = this.templates;
      const sure = level(plan.sure);
      const reached = this.reached[other.n]?.[this.levels.indexOf(plan.sure)];
      const why = plan.n === null
        ? fill(none, { sure, reach: chance(plan.reach) })
        : fill(far, { n: count(plan.n), sure, near });
      const after = reached ? [fill(then, { n: count(other.n), reached, sure })] : [];
      return this.advice(plan, { ...other, reasons: [why, ...after] });
    }

    /** Advice with its price and the first check of a rehearsal. */
    advice({ cost }, { action, n, sentence, reasons }) {
      const more = [...reasons];
      if (cost && n !== null) {
        const missing = Math.max(n - this.known, 0);
        const kind = missing ? (this.known ? "pilot" : "rehearsal") : "none";
        const words = { missing: count(missing), last: count(this.known), price: price(cost * missing) };
        more.push(fill(this.templates.price[kind], words));
      }
      if (action !== "train" && this.check) more.push(this.check);
      return { action, n, sentence, reasons: more };
    }

    /** The columns of the numbers of samples, and their texts for a plan. */
    heads(shown) {
      return [...shown.map((p) => `${level(p)} sure`), ...this.templates.heads];
    }

    cells(plan, shown) {
      const reach = plan.reach === null ? "-" : chance(plan.reach);
      if (plan.doubt) return [...shown.map(() => "-"), "-", "-", "-", reach];
      const text = (n) => (n === null ? "none" : `${n <= this.first ? "≤ " : ""}${whole(n)}`);
      const end = (n) => (plan.lower === null ? "-" : n === null ? "∞" : whole(n));
      const ends = [plan.lower, plan.upper].map(end);
      return [...shown.map((p) => text(plan.samples[p])), text(plan.even), ...ends, reach];
    }

    /** Even odds and the plausible range of N. */
    odds({ even, lower, upper }) {
      if (lower === null) return "";
      const kind = even === null ? "lower" : upper === null ? "open" : "both";
      return fill(this.templates.odds[kind], { even: count(even), lower: count(lower), upper: count(upper) });
    }

    /** How often such answers held, so far beyond the pilot. */
    held(plan) {
      const n = plan.advice.action === "collect" ? plan.n : 0;
      const found = n > this.known && this.record.find(([times]) => n / (this.known || 1) <= times);
      return found ? found[1] : "";
    }

    question(goal) {
      return fill(this.templates.question[this.model ? "model" : ""], { model: this.model, goal });
    }
  }

  return Object.freeze({ Table, LAWS, place, general, value, chance, times, count, level, fill });
})();
