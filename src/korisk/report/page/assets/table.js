// The planner's answers in the page: looked up in the table that planner.py computed for some
// hundred targets, and interpolated between two of them. There are no statistics here.

var koriskTable = (() => {
  "use strict";

  // ---- Numbers in words, as korisk/planning/explain.py writes them ----

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

  /** The largest probability of all N, where it falls short of a level. */
  function most(p, level) {
    const asked = `${Math.round(100 * level)}%`;
    return chance(p) === asked ? `just below ${asked}` : `at most ${chance(p)}`;
  }

  const count = (n) => (n === null ? "∞" : Math.round(n).toLocaleString("en"));
  const times = (x) => (x >= 10 ? count(even(x)) : general(x, 2));

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
    constructor(data) {
      Object.assign(this, data);
      this.unit = LAWS[data.unit.law];
      this.depth = data.targets.map((target) => -Math.log(this.unit.toError(target)));
      const bytes = Uint8Array.from(atob(data.table), (letter) => letter.charCodeAt(0));
      const [low, high] = [data.sizes[0], data.horizon].map(Math.log);
      const steps = new Uint16Array(bytes.buffer);
      const logN = Array.from(steps, (step) => low + ((high - low) * step) / 65535);
      const wide = data.shares.length;
      this.rows = data.targets.map((_, row) => ({
        logN: logN.slice(row * wide, (row + 1) * wide),
        first: data.ends[2 * row], // probability at the pilot's first N,
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
      const where = this.where(target);
      if (!where.share && n === this.answers.middle[where.row]) return this.answers.chance[where.row];
      const { logN, first, most } = this.blend(where);
      if (Math.log(n) < logN[0]) return first;
      const [at, part] = place(logN, Math.log(n) + 1e-9);
      const share = (1 - part) * this.shares[at] + part * this.shares[at + 1];
      return first + share * (most - first);
    }

    /** The smallest N with probability p; null where there is none. */
    crossing(where, p) {
      const { logN, first, most } = this.blend(where);
      if (p <= first) return this.sizes[0];
      if (p > most) return null;
      const [at, part] = place(this.shares, (p - first) / (most - first));
      return Math.ceil(Math.exp((1 - part) * logN[at] + part * logN[at + 1]) - 1e-3);
    }

    /**
     * The answer to a target at one of the table's levels. Sizes that do not exist, and infinite
     * ones, are null.
     */
    plan(target, sure = 0.9) {
      const at = this.where(target);
      const { row, share } = at;
      const kept = this.answers;
      const read = (values, p) => (share ? this.size(values, at, p) : values[row]);
      const enough = (p) => (share ? this.crossing(at, p) : kept.samples[this.levels.indexOf(p)][row]);
      const near = share < 0.5 ? row : row + 1;
      const doubt = kept.doubt[share ? row + 1 : row];
      const plan = {
        target,
        sure,
        between: share ? [this.targets[row], this.targets[row + 1]] : null,
        doubt: doubt ? this.doubts[doubt - 1] : "",
        reach: share ? this.blend(at).most : kept.reach[row],
        middle: read(kept.middle),
        lower: read(kept.lower, 0.05),
        upper: read(kept.upper, 0.95),
        samples: Object.fromEntries(this.levels.map((p) => [String(p), enough(p)])),
        ifReached: read(kept.if_reached),
        by: read(kept.by),
      };
      if (doubt) Object.assign(plan, { middle: null, lower: null, upper: null });
      if (share && plan.reach < this.least_reach) plan.middle = null;
      plan.n = doubt ? null : enough(sure);
      plan.even = doubt ? null : enough(0.5);
      plan.chance = plan.middle === null ? null : share ? this.probability(plan.middle, target) : kept.chance[row];
      plan.byChance = share ? this.probability(plan.by, target) : kept.by_chance[row];
      const collect = (each) => kept.collect[this.levels.indexOf(sure)][each] === "1";
      const advised = plan.n !== null && (share ? collect(row) && collect(row + 1) : collect(row));
      const other = this.others[kept.other[near] - 1];
      plan.advice = advised || !other ? { action: "collect", reasons: [] } : other;
      return plan;
    }

    inside = (n) => n !== null && n <= this.last;

    /** The advice in one line, by the templates of planner.py. */
    question(goal, templates) {
      return fill(templates[this.model ? "question" : "asked"], { model: this.model, goal });
    }

    headline(plan, templates) {
      if (plan.advice.action !== "collect") return plan.advice.sentence;
      const kind = plan.n <= this.sizes[0] ? "already" : this.inside(plan.n) ? "inside" : "collect";
      const said = fill(templates[kind], { n: count(plan.n), sure: level(plan.sure) });
      const name = this.model ? `${this.model}: ${said}` : said[0].toUpperCase() + said.slice(1);
      return kind === "already" || plan.even === null ? name : name + fill(templates.even, { even: count(plan.even) });
    }

    /** What stands under it: the interval of N, and even odds where the line above has none. */
    interval(plan, templates) {
      if (plan.lower === null || (plan.upper !== null && plan.upper <= this.sizes[0])) return "";
      const kind = plan.upper === null ? "at_least" : "interval";
      const ends = fill(templates[kind], { lower: count(plan.lower), upper: count(plan.upper) });
      const even = plan.advice.action !== "collect" && plan.even !== null;
      return (even ? `${fill(templates.even, { even: count(plan.even) }).slice(2)}; ` : "") + ends;
    }

    /**
     * A size between two rows. Where one of them has none, the probabilities tell it: at level p,
     * or where they are the same part of the largest one as in the row that has it.
     */
    size(values, at, p) {
      const [a, b] = [values[at.row], values[at.row + 1]];
      if (a !== null && b !== null) {
        return Math.round(Math.exp((1 - at.share) * Math.log(a) + at.share * Math.log(b)));
      }
      if (a === null && b === null) return null;
      if (p !== undefined) return this.crossing(at, p);
      const known = a === null ? at.row + 1 : at.row;
      const part = this.probability(values[known], this.targets[known]) / this.rows[known].most;
      return this.crossing(at, part * this.blend(at).most);
    }

    /** Whether N lies beyond the pilot and holds only if the target is reached. */
    conditional = ({ middle, reach }) => middle !== null && middle > this.last && reach < this.sure;

    /** Whether the target is probably not reached, although there is a number of samples. */
    unlikely = (plan) => this.conditional(plan) && plan.reach < this.even;

    /** What is said of a target without a number: only a pilot that shows a floor rules it out. */
    missed = () => (this.no_floor ? "not known" : "not reachable");

    /** The measured sizes on either side of an N inside the pilot. */
    sides(n) {
      const after = this.sizes.findIndex((size) => size >= n);
      return [this.sizes[Math.max(after - 1, 0)], this.sizes[after]];
    }

    /** The answer in sentences, by the templates of planner.py. */
    sentence(plan, templates) {
      if (plan.doubt) return plan.doubt;
      const { middle: samples, samples: safe } = plan;
      const ratio = samples / this.last;
      const inside = samples !== null && samples <= this.last;
      const parts = [
        samples === null ? (this.no_floor ? "not_known" : "unreachable")
        : samples <= this.sizes[0] ? "smallest"
        : inside ? "inside"
        : this.unlikely(plan) ? "unlikely"
        : this.conditional(plan) ? "if_reachable"
        : "beyond",
      ];
      if (samples !== null && ratio > this.far) parts.push("rough");
      if (samples !== null && samples > this.sizes[0] && plan.lower !== null) {
        parts.push(plan.upper === null ? "at_least" : "interval");
      }
      if (samples !== null && samples !== safe["0.9"]) {
        parts.push(safe["0.9"] !== null ? "safe" : this.doubt ? "unsafe_inside" : "unsafe");
      }
      const [before, after] = inside ? this.sides(samples) : [];
      const far = ratio >= 1.1 ? `${times(ratio)} times` : "little more than";
      const words = {
        start: this.model || "The model",
        model: this.model || "the model",
        whose: this.model ? ` of ${this.model}` : "",
        target: value(plan.target),
        horizon: count(this.horizon),
        reach: chance(plan.reach),
        why: this.no_floor,
        most: most(plan.reach, 0.9),
        anywhere: this.anywhere,
        far: `${far} the pilot's largest N of ${count(this.last)}`,
        samples: count(samples),
        chance: chance(plan.chance),
        before: count(before),
        after: count(after),
        lower: count(plan.lower),
        upper: count(plan.upper),
        safe: count(safe["0.9"]),
      };
      return parts.map((part) => fill(templates[part], words)).join(" ");
    }
  }

  return Object.freeze({ Table, LAWS, place, value, chance, most, times, count, level });
})();
