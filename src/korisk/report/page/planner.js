// The planner in the page: the formulas of korisk/curves (posterior, forecast, plan, target, words,
// compare) for the default method, on what korisk/report/planner_data.py packs. Functions carry the
// names of their Python originals, and answer the same to the integer and to the letter.

var koriskPlanner = (() => {
  "use strict";

  // ---- The normal distribution ----

  const PER_UNIT = 32; // nodes of the table
  const FAR = 8.5; // the table's ends; beyond, tails
  const TERMS = 11; // of the Taylor series around each node
  const TABLE = normalTable();

  /** Phi(x) to the last digits, from x = -37 on relative to its own size. */
  function ndtr(x) {
    if (x >= FAR) return 1;
    if (x < -FAR) return leftTail(-x);
    const node = (x * PER_UNIT + (FAR * PER_UNIT + 0.5)) | 0;
    const d = x - (node / PER_UNIT - FAR);
    const t = TABLE, i = node * TERMS; // written out, for this is called millions of times
    const tail = t[i + 6] + d * (t[i + 7] + d * (t[i + 8] + d * (t[i + 9] + d * t[i + 10])));
    return t[i] + d * (t[i + 1] + d * (t[i + 2] + d * (t[i + 3] + d * (t[i + 4] +
      d * (t[i + 5] + d * tail)))));
  }

  /** Phi(-x) for x > 8.5. The square is split, because exp would magnify its rounding. */
  function leftTail(x) {
    if (x > 39) return 0; // less than any double
    const near = Math.round(x * 16) / 16;
    const density = Math.exp(-0.5 * near * near) * Math.exp(-0.5 * (x - near) * (x + near));
    return (density / Math.sqrt(2 * Math.PI)) * mills(x, 20);
  }

  /** Phi(-x) over the density at x > 0: Laplace's continued fraction, from the inside out. */
  function mills(x, depth) {
    let rest = x;
    for (let k = depth; k >= 1; k--) rest = x + k / rest;
    return 1 / rest;
  }

  /** Taylor coefficients of Phi at every node; derivatives are Hermite polynomials. */
  function normalTable() {
    const table = new Float64Array((2 * FAR * PER_UNIT + 1) * TERMS);
    for (let node = 0; node * TERMS < table.length; node++) {
      const x = node / PER_UNIT - FAR;
      const density = Math.exp(-0.5 * x * x) / Math.sqrt(2 * Math.PI);
      table[node * TERMS] = x < -1 ? density * mills(-x, 400) : 0.5 + density * oddSeries(x);
      let before = 0, hermite = 1, factorial = 1;
      for (let j = 1; j < TERMS; j++) {
        factorial *= j;
        table[node * TERMS + j] = ((j % 2 ? 1 : -1) * density * hermite) / factorial;
        [before, hermite] = [hermite, x * hermite - (j - 1) * before];
      }
    }
    return table;
  }

  /** (Phi(x) - 1/2) over the density: x + x^3/3 + x^5/15 + ..., terms of one sign. */
  function oddSeries(x) {
    let sum = 0;
    for (let term = x, k = 1; sum + term !== sum; k += 2, term *= (x * x) / k) sum += term;
    return sum;
  }

  // ---- Numbers in words, as Python writes them ----

  /** The leading digits of |x| > 0, rounded half to even on its exact value, and its exponent. */
  function rounded(x, places) {
    const [mantissa, power] = Math.abs(x).toExponential(100).split("e");
    const all = mantissa.replace(".", "");
    let exponent = Number(power);
    const keep = places(exponent);
    if (keep < 0) return { digits: "", exponent };
    let digits = all.slice(0, keep);
    const rest = all.slice(keep);
    const half = "5".padEnd(rest.length, "0");
    const odd = "13579".includes(digits.slice(-1)) && digits !== "";
    if (rest > half || (rest === half && odd)) {
      const last = digits.replace(/9*$/, "");
      digits = last.slice(0, -1) + (last ? Number(last.slice(-1)) + 1 : 1);
      if (!last) exponent += 1;
      digits = digits.padEnd(last ? keep : keep + 1, "0");
    }
    return { digits, exponent };
  }

  /** Python's f"{x:.{p}g}". */
  function general(x, p) {
    if (Number.isNaN(x)) return "nan";
    if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
    const sign = x < 0 || Object.is(x, -0) ? "-" : "";
    if (x === 0) return `${sign}0`;
    const { digits, exponent } = rounded(x, () => p);
    const bare = digits.replace(/0+$/, "");
    if (exponent < -4 || exponent >= p) {
      const fraction = bare.length > 1 ? `.${bare.slice(1)}` : "";
      const size = String(Math.abs(exponent)).padStart(2, "0");
      return `${sign}${bare[0]}${fraction}e${exponent < 0 ? "-" : "+"}${size}`;
    }
    if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${bare}`;
    const whole = bare.slice(0, exponent + 1).padEnd(exponent + 1, "0");
    return sign + whole + (bare.length > exponent + 1 ? `.${bare.slice(exponent + 1)}` : "");
  }

  /** Python's f"{x:.0f}" for x >= 0. */
  function whole(x) {
    if (!Number.isFinite(x)) return general(x, 1);
    const { digits, exponent } = x === 0 ? { digits: "", exponent: 0 } : rounded(x, (e) => e + 1);
    return digits.padEnd(digits ? exponent + 1 : 0, "0") || "0";
  }

  const grouped = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ",");

  /** An error, short. */
  const value = (x) => general(x, 4);

  /** A probability, without claiming certainty. */
  function chance(p) {
    if (p < 0.01) return "below 1%";
    return p > 0.99 ? "above 99%" : `${whole(p * 100)}%`;
  }

  /** A factor, with two digits where that is few. */
  const times = (factor) => (factor >= 10 ? grouped(whole(factor)) : general(factor, 2));

  /** A number of samples, or words where it has no end. */
  const count = (n) => (Number.isFinite(n) ? grouped(whole(n)) : "no end");

  // ---- Units ----

  const BITS = 256n; // after the point of fixed-point numbers
  const LOG_10 = (2302585092994045684017991454684364207601101488628772976033n << BITS) / 10n ** 57n;

  /**
   * 10^y, rounded from many digits: browsers' own powers are off by a bit now and then, and a
   * target that was measured must not miss its own mean by that.
   */
  function powerOfTen(y) {
    if (!(Math.abs(y) <= 300)) return Math.pow(10, y);
    const exponent = BigInt(Math.trunc(Math.abs(y) * 2 ** 100)) << (BITS - 100n);
    const small = (exponent * LOG_10) >> (BITS + 20n); // squared twenty times at the end
    let sum = 0n;
    for (let term = 1n << BITS, k = 1n; term > 0n; k++) {
      sum += term;
      term = ((term * small) >> BITS) / k;
    }
    for (let k = 0; k < 20; k++) sum = (sum * sum) >> BITS;
    const power = y < 0 ? (1n << (8n * BITS)) / sum : sum;
    const spare = power.toString(2).length - 128; // more bits than a double has
    const scale = spare - Number(y < 0 ? 7n * BITS : BITS);
    return Number(spare > 0 ? power >> BigInt(spare) : power << BigInt(-spare)) * 2 ** scale;
  }

  const LAWS = {
    error: { toError: (x) => x, fromError: (e) => e },
    complement: { toError: (x) => 1 - x, fromError: (e) => 1 - e },
    percent: { toError: (x) => 100 - x, fromError: (e) => 100 - e },
    psnr: { toError: (x) => powerOfTen(-x / 10), fromError: (e) => -10 * Math.log10(e) },
    squared: { toError: (x) => (x > 0 ? x * x : NaN), fromError: (e) => Math.sqrt(e) },
    negated: { toError: (x) => -x, fromError: (e) => -e },
  };

  /** How a metric of that law becomes an error, and back. */
  function unit(law) {
    if (!Object.hasOwn(LAWS, law)) throw new RangeError(`unknown law of a unit: ${law}`);
    return LAWS[law];
  }

  // What a target far from the pilot might have meant, in the order of constants.meanings.
  const CONVERSIONS = [
    (t) => t / 100,
    (t) => t * 100,
    (t) => 1 - t,
    (t) => 1 - t / 100,
    (t) => powerOfTen(-t / 10),
    (t) => t * t,
    (t) => Math.sqrt(t),
    (t) => -t,
    (t) => 1 - t,
    (t) => 100 - t,
    (t) => -10 * Math.log10(t),
  ];

  // ---- Grids ----

  function roundHalfEven(x) {
    const below = Math.floor(x);
    const part = x - below;
    return part === 0.5 ? below + (below % 2 ? 1 : 0) : below + (part > 0.5 ? 1 : 0);
  }

  function linspace(start, end, length) {
    const step = (end - start) / (length - 1);
    return Array.from({ length }, (_, i) => (i === length - 1 ? end : i * step + start));
  }

  const unique = (ascending) => ascending.filter((n, i) => i === 0 || n !== ascending[i - 1]);

  // ---- The posterior ----

  const MOST_KEPT = 256; // moments at N off the grids; one is 20 kB

  function bytes(text) {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  }

  /** A mixture of curves, each with its weight; errors are log-normal around each. */
  class Posterior {
    constructor(data) {
      this.last = data.last;
      this.surprise = data.surprise;
      this.stretch = data.surprise_stretch;
      this.step = data.surprise_step;
      this.pilot = data.pilot;
      this.shifts = data.shifts;
      this.weight = new Float64Array(bytes(data.weight).buffer);
      this.floor = new Float64Array(bytes(data.floor).buffer);
      this.walk = bytes(data.walk);
      this.walks = data.walks.map((walk) => opened(walk, data.pilot.x.length));
      this.pairUp(new Uint16Array(bytes(data.rate).buffer), bytes(data.shift), data.rates);
      this.weighPilot();
      this.kept = new Map();
      this.pinned = new Set(); // N whose moments are kept for good
    }

    /** Grid points share few rates and shifts, and powers are costly: one for each pair. */
    pairUp(rate, shift, rates) {
      const seen = new Map();
      this.pair = new Uint16Array(rate.length);
      this.pairs = [];
      for (let i = 0; i < rate.length; i++) {
        const key = rate[i] * this.shifts.length + shift[i];
        if (!seen.has(key)) {
          seen.set(key, this.pairs.length);
          this.pairs.push({ rate: rates[rate[i]], shift: shift[i] });
        }
        this.pair[i] = seen.get(key);
      }
      this.powers = new Float64Array(this.pairs.length);
    }

    /** (P,) the logarithm of each curve over its value at N_last. */
    logShape(x) {
      const logs = this.shifts.map((shift) => Math.log((x + shift) / (1 + shift)));
      const { powers, floor, pair } = this;
      this.pairs.forEach(({ rate, shift }, i) => (powers[i] = Math.exp(-rate * logs[shift])));
      const shape = new Float64Array(floor.length);
      for (let i = 0; i < shape.length; i++) {
        shape[i] = Math.log(floor[i] + (1 - floor[i]) * powers[pair[i]]);
      }
      return shape;
    }

    /** What each curve says of the level, and how far the pilot's means lie from it. */
    weighPilot() {
      const { x, y } = this.pilot;
      const points = this.weight.length;
      const shapes = x.map((at) => this.logShape(at));
      this.level = new Float64Array(points);
      this.residuals = x.map(() => new Float64Array(points));
      for (let i = 0; i < points; i++) {
        const { inverse, ones, precision } = this.walks[this.walk[i]];
        const away = y.map((log, k) => log - shapes[k][i]);
        const white = inverse.map((row) => dot(row, away));
        this.level[i] = dot(ones, white) / precision;
        y.forEach((log, k) => (this.residuals[k][i] = log - this.level[i] - shapes[k][i]));
      }
    }

    /** Mean (P,) of the log error at N, and for each walk its deviation, calm or surprised. */
    moments(n) {
      let made = this.kept.get(n);
      if (made === undefined) {
        made = this.computedMoments(n);
        this.keep(n, made);
      }
      return made;
    }

    keep(n, made) {
      if (this.kept.size >= this.pinned.size + MOST_KEPT) {
        for (const old of this.kept.keys()) {
          if (this.pinned.has(old)) continue;
          this.kept.delete(old);
          break;
        }
      }
      this.kept.set(n, made);
    }

    computedMoments(n) {
      const x = n / this.last;
      const behind = Math.max(-Math.log2(x), 0), ahead = Math.max(Math.log2(x), 0);
      const mean = this.logShape(x);
      for (let i = 0; i < mean.length; i++) mean[i] += this.level[i];
      const held = this.walks.map((walk) => this.heldWalk(walk, behind));
      const deviation = (variance) => Math.sqrt(Math.max(variance, 1e-24));
      const calm = this.walks.map(({ drift }, w) =>
        deviation(held[w].variance + drift * drift * ahead));
      const surprised = this.walks.map(({ drift }, w) =>
        deviation(held[w].variance + ((this.stretch * drift) ** 2 + this.step ** 2) * ahead));
      if (behind > 0) this.addPull(mean, held);
      return { mean, calm: Float64Array.from(calm), surprised: Float64Array.from(surprised) };
    }

    /** Within the pilot a walk is held by the means around; beyond it, it is free. */
    heldWalk({ drift, inverse, ones, precision }, behind) {
      const square = drift * drift;
      const near = this.pilot.doublings.map((doubling) => square * Math.min(doubling, behind));
      const pull = inverse.map((row) => dot(row, near));
      const left = Math.max(square * behind - dot(pull, pull), 0);
      const variance = left + (1 - dot(ones, pull)) ** 2 / precision;
      // inverse^T pull, so that each point needs one product with its residuals
      const back = near.map((_, k) =>
        pull.reduce((sum, p, row) => (row >= k ? sum + inverse[row][k] * p : sum), 0));
      return { variance, back };
    }

    addPull(mean, held) {
      this.residuals.forEach((residual, k) => {
        const back = Float64Array.from(held, (walk) => walk.back[k]);
        for (let i = 0; i < mean.length; i++) mean[i] += residual[i] * back[this.walk[i]];
      });
    }

    /** The probability that the log error at N is at most the one given. */
    under(logError, { mean, calm, surprised }) {
      const { weight, walk, surprise } = this;
      const unsurprised = 1 - surprise;
      let sum = 0;
      for (let i = 0; i < mean.length; i++) {
        const away = logError - mean[i];
        const steady = ndtr(away / calm[walk[i]]), wild = ndtr(away / surprised[walk[i]]);
        sum += weight[i] * (unsurprised * steady + surprise * wild);
      }
      return Math.min(Math.max(sum, 0), 1);
    }

    density(logError, { mean, calm, surprised }) {
      const { weight, walk, surprise } = this;
      let sum = 0;
      for (let i = 0; i < mean.length; i++) {
        const away = logError - mean[i];
        const narrow = calm[walk[i]], wide = surprised[walk[i]];
        const steady = Math.exp(-0.5 * (away / narrow) ** 2) / narrow;
        const wild = Math.exp(-0.5 * (away / wide) ** 2) / wide;
        sum += weight[i] * ((1 - surprise) * steady + surprise * wild);
      }
      return sum / Math.sqrt(2 * Math.PI);
    }

    /** The error at N that is undercut with probability p, by Newton's steps and bisection. */
    quantile(n, p, { newton, close }) {
      const moments = this.moments(n);
      const { mean, surprised } = moments;
      let low = Infinity, high = -Infinity;
      for (let i = 0; i < mean.length; i++) {
        low = Math.min(low, mean[i] - 9 * surprised[this.walk[i]]);
        high = Math.max(high, mean[i] + 9 * surprised[this.walk[i]]);
      }
      let at = dot(this.weight, mean);
      for (let tried = 0; tried < newton; tried++) {
        const short = this.under(at, moments) - p;
        if (short < 0) low = at;
        else high = at;
        const step = at - short / this.density(at, moments);
        const following = step >= low && step <= high ? step : 0.5 * (low + high);
        const done = Math.abs(following - at) < close;
        at = following;
        if (done) break;
      }
      return Math.exp(at);
    }

    /** The floor that the true one undercuts with probability p. */
    floorQuantile(p) {
      const floors = this.floor.map((part, i) => part * Math.exp(this.level[i]));
      const order = Array.from(floors.keys()).sort((i, j) => floors[i] - floors[j] || i - j);
      let sum = 0;
      for (const i of order) {
        sum += this.weight[i];
        if (sum >= p) return floors[i];
      }
      return floors[order[order.length - 1]];
    }
  }

  function opened({ drift, precision, inverse }, length) {
    const packed = new Float64Array(bytes(inverse).buffer);
    const rows = Array.from({ length }, (_, k) =>
      packed.subarray((k * (k + 1)) / 2, ((k + 1) * (k + 2)) / 2));
    return { drift, precision, inverse: rows, ones: rows.map((row) => row.reduce(add, 0)) };
  }

  const add = (a, b) => a + b;

  /** The sum of products; of the longer one only as much as the shorter has. */
  function dot(row, column) {
    let sum = 0;
    for (let k = 0; k < row.length; k++) sum += row[k] * column[k];
    return sum;
  }

  // ---- The forecast ----

  const INNER = 18; // points between two N, the ends among them

  class Forecast {
    constructor(data) {
      Object.assign(this, {
        model: data.model,
        metric: data.metric,
        unit: { ...data.unit, ...unit(data.unit.law) },
        sizes: data.sizes,
        means: data.means,
        last: data.last,
        horizon: data.horizon,
        findings: data.findings,
        constants: data.constants,
        posterior: new Posterior(data.posterior),
        lowest: data.means.reduce((a, b) => Math.min(a, b)),
        highest: data.means.reduce((a, b) => Math.max(a, b)),
      });
      this.doublings = this.doublingGrid();
      this.fromFirst = this.coarse(this.sizes[0]);
      this.floor = this.unit.fromError(this.posterior.floorQuantile(0.5));
      this.posterior.pinned = new Set([...this.doublings, ...this.fromFirst]);
      this.asked = { goal: NaN, chances: new Map() }; // the latest target's probabilities
    }

    /** N from the pilot's first to the horizon, four to a doubling, the near end among them. */
    doublingGrid() {
      const start = this.sizes[0], end = this.horizon;
      const length = Math.ceil(Math.log2(end / start) / 0.25);
      const grid = Array.from({ length }, (_, i) => start * Math.pow(2, i * 0.25));
      const ends = [this.last, Math.min(this.constants.near * this.last, end), end];
      return unique([...grid, ...ends].sort((a, b) => a - b));
    }

    coarse(start) {
      const doublings = Math.log2(this.horizon / start);
      const length = 2 + Math.trunc(this.constants.per_doubling * doublings);
      const powers = linspace(0, doublings, length);
      return unique(powers.map((power) => roundHalfEven(start * Math.pow(2, power))));
    }

    /** The probability that the error at N is at most the goal. */
    chanceAt(n, goal) {
      if (this.asked.goal !== goal) this.asked = { goal, chances: new Map() };
      const { chances } = this.asked;
      let p = chances.get(n);
      if (p === undefined) {
        p = this.posterior.under(Math.log(goal), this.posterior.moments(n));
        chances.set(n, p);
      }
      return p;
    }

    /** The probability that the goal is met by N. */
    chanceBy(n, goal) {
      const before = this.doublings.filter((at) => at < n);
      return before.reduce((most, at) => Math.max(most, this.chanceAt(at, goal)),
        this.chanceAt(n, goal));
    }

    /** The smallest N, from the pilot's first (or `start`) to the horizon, with `reached`. */
    first(reached, start) {
      const grid = start === null ? this.fromFirst : this.coarse(start);
      const position = grid.findIndex(reached);
      if (position < 0) return null;
      if (position === 0) return grid[0];
      let low = grid[position - 1], high = grid[position];
      while (high - low > 1) { // not reached at low, reached at high
        const inner = unique(linspace(low, high, INNER).map(roundHalfEven)).slice(1, -1);
        const found = inner.findIndex(reached);
        const index = found < 0 ? inner.length : found;
        [low, high] = [index > 0 ? inner[index - 1] : low, found < 0 ? high : inner[index]];
      }
      return high;
    }

    /** The N by which the goal is met with probability p. */
    when(goal, p, start) {
      return this.first((n) => this.chanceAt(n, goal) >= p, start);
    }

    /** Where the search must begin, if the pilot meets the goal, rises, and misses it again. */
    againMissed(goal) {
      const missed = this.means.map((mean) => mean > goal);
      const latest = missed.lastIndexOf(true);
      return latest < 0 || missed.slice(0, latest).every(Boolean) ? null : this.sizes[latest] + 1;
    }

    sampleCount(n) {
      if (Number.isInteger(n) && n >= 2 && n <= this.horizon) return n;
      throw new RangeError(
        `n must be a whole number from 2 to ${count(this.horizon)}, got ${n}; ` +
        "a pilot says nothing of N beyond 10,000 times its largest");
    }

    /** The error to expect at N and its 90% band, in the user's unit. */
    at(n) {
      const size = this.sampleCount(n);
      const [error, one, other] = [0.5, 0.05, 0.95].map((p) =>
        this.unit.fromError(this.posterior.quantile(size, p, this.constants)));
      return { n: size, error, lower: Math.min(one, other), upper: Math.max(one, other) };
    }

    /** The probability that the target is met by N. */
    probability(n, target) {
      return this.chanceBy(this.sampleCount(n), this.goal(target));
    }

    /** Why a target cannot be planned for, or nothing. */
    refusal(target) {
      const wanted = asNumber(target);
      const { noun, rule } = this.unit;
      if (!Number.isFinite(wanted)) {
        const got = typeof target === "number" ? general(target, 6) : "no number";
        return `target must be a finite number, got ${got}; ` +
          `give the ${noun} that you want to reach`;
      }
      const error = this.unit.toError(wanted);
      const hint = this.hint(wanted);
      if (!(this.constants.smallest_error <= error && error <= this.constants.largest_error)) {
        const article = "aeiou".includes(noun[0]) ? "an" : "a";
        return `target must be ${article} ${noun} ${rule}, got ${general(wanted, 6)}; ` +
          (hint || "give the one that you want to reach");
      }
      return hint && error > this.highest
        ? `target ${general(wanted, 6)} is worse than all that was measured; ${hint}`
        : "";
    }

    /** The target as an error; one that is refused throws. */
    goal(target) {
      const refused = this.refusal(target);
      if (refused) throw new RangeError(refused);
      return this.unit.toError(asNumber(target));
    }

    /** A question that suggests what a target far from the pilot might have meant, or nothing. */
    hint(target) {
      const wanted = asNumber(target);
      const { lowest: low, highest: high, constants } = this;
      const { toError, fromError, law } = this.unit;
      const error = toError(wanted);
      const easy = error > high;
      if (constants.hard * low <= error && error <= high) return "";
      if (easy && !this.tooEasy(wanted, error)) return "";
      for (const [index, { words, laws }] of constants.meanings.entries()) {
        if (!laws.includes(law)) continue;
        const other = CONVERSIONS[index](wanted);
        const meant = toError(other);
        if (0.3 * low <= meant && meant <= high) {
          const [from, to] = [fromError(low), fromError(high)].sort((a, b) => a - b);
          return `the pilot runs from ${value(from)} to ${value(to)}: was the target ${words}? ` +
            `then ask for ${value(other)}`;
        }
      }
      return "";
    }

    tooEasy(wanted, error) {
      if (error > this.constants.easy * this.highest) return true;
      // A score has an end, so that its error cannot be many times larger; the score itself can.
      const worst = this.unit.fromError(this.highest);
      return this.unit.larger_is_better && wanted < worst / 10 && worst > 0;
    }

    plan(target) {
      return plan(this, target);
    }
  }

  /** A number, or the text of one as an input field gives it. */
  function asNumber(target) {
    if (typeof target !== "string") return typeof target === "number" ? target + 0 : NaN;
    return target.trim() === "" ? NaN : Number(target) + 0;
  }

  // ---- The plan ----

  /** How many samples a target asks for, according to the pilot. */
  function plan(made, target) {
    const goal = made.goal(target);
    const answer = { target: asNumber(target), goal, ...byPosterior(made, goal) };
    answer.floor = made.floor;
    answer.beforeLong = beforeLong(made, answer.lower);
    Object.assign(answer, ranges(made, answer));
    answer.rounds = rounds(made, answer.samples);
    answer.nextRound = answer.rounds.length ? answer.rounds[0] : null;
    answer.explanation = explain(made, answer);
    return answer;
  }

  /** Read N off the probability that the goal is met by N. */
  function byPosterior(made, goal) {
    const { least_reach: least, tail, middle } = made.constants;
    const reach = made.chanceBy(made.horizon, goal);
    if (reach < least) return { samples: null, lower: Infinity, upper: Infinity, reach };
    const start = made.againMissed(goal);
    const lower = made.when(goal, tail, start) ?? Infinity;
    const upper = (reach > 1 - tail ? made.when(goal, 1 - tail, start) : null) ?? Infinity;
    const samples = made.when(goal, middle * futures(made, goal, lower), start);
    return { samples, lower, upper, reach };
  }

  /** 64 times the pilot, or 16 times the earliest plausible N where that is more. */
  function beforeLong(made, earliest) {
    const { near, later } = made.constants;
    const far = Number.isFinite(earliest) ? later * earliest : 0;
    return Math.trunc(Math.min(Math.max(near * made.last, far), made.horizon));
  }

  /** The probability of the futures that meet the goal before long. */
  const futures = (made, goal, earliest) => made.chanceBy(beforeLong(made, earliest), goal);

  /** What to budget for at each level of safety, and the range of N among futures that count. */
  function ranges(made, { goal, samples, lower, upper }) {
    const { levels, tail } = made.constants;
    if (samples === null) {
      return { safe: Object.fromEntries(levels.map((p) => [p, null])), ifMet: null };
    }
    const counted = futures(made, goal, lower);
    const start = made.againMissed(goal);
    const by = (p) => made.when(goal, p, start) ?? made.horizon;
    const whole = Number.isFinite(upper) ? 1 : counted;
    const safe = levels.map((p) => [p, Math.max(samples, by(p * whole))]);
    const ifMet = [by(tail * counted), by((1 - tail) * counted)];
    return { safe: Object.fromEntries(safe), ifMet };
  }

  /** Totals after each round of collection. */
  function rounds(made, samples) {
    const { round, largest_n: largest } = made.constants;
    if (samples === null) return [Math.min(2 * made.last, largest)];
    const totals = [];
    for (let total = made.last; total < samples; ) {
      total = Math.min(round * total, samples);
      totals.push(total);
    }
    return totals;
  }

  // ---- The plan in words ----

  /** The answer first, then how sure it is, what to do next, and what is odd about the pilot. */
  function explain(made, answer) {
    const said = [...answered(made, answer), ...certainty(made, answer), ...nextSteps(answer)];
    return [...said, ...made.findings].join(" ");
  }

  function answered(made, { target, samples, reach }) {
    const wanted = value(target), start = made.model || "The model";
    if (samples === null) return outOfReach(made, target, reach);
    const size = count(samples);
    if (samples <= made.sizes[0]) {
      return [`${start} meets the target ${wanted} already at the pilot's smallest N = ${size}; ` +
        "ask for a harder one, or measure smaller N."];
    }
    if (samples <= made.last) {
      return [`${start} meets the target ${wanted} within the pilot, at about N = ${size}.`];
    }
    const far = `${times(samples / made.last)} times the pilot's largest N of ${count(made.last)}`;
    const said = [];
    if (reach < 0.5) {
      said.push(`${start} probably does not reach ${wanted}: the chance is ${chance(reach)}. ` +
        `If it does, it needs about ${size} samples, ${far}.`);
    } else {
      const condition = reach > 0.95 ? "" : ", if it can reach it at all";
      said.push(`To reach ${wanted}, ${made.model || "the model"} needs about ${size} samples, ` +
        `${far}${condition}.`);
    }
    if (samples > 64 * made.last) {
      said.push("That is so far beyond the pilot that only its order of magnitude means much.");
    }
    return said;
  }

  function outOfReach(made, target, reach) {
    const said = [`The target ${value(target)} is not reachable according to this pilot: the ` +
      `${made.unit.noun} of ${made.model || "the model"} levels off at about ` +
      `${value(made.floor)}, and the chance to meet it by N = ${count(made.horizon)} is ` +
      `${chance(reach)}.`];
    const hint = made.hint(target);
    return hint ? [...said, `${hint[0].toUpperCase()}${hint.slice(1)}.`] : said;
  }

  function certainty(made, { goal, samples, lower, upper, reach, safe, beforeLong: until }) {
    if (samples === null || samples <= made.last) return [];
    const budget = count(safe["0.9"]);
    if (Number.isFinite(upper)) {
      return [`With 90% certainty it is between ${count(lower)} and ${count(upper)}; ` +
        `${budget} suffice with 90% certainty: budget for those.`];
    }
    const side = made.unit.larger_is_better ? "below" : "above";
    const end = reach >= 0.5 ? ": budget for those, knowing the odds." : ".";
    return [
      `It may be as few as ${count(lower)}, and there is no upper end: the pilot cannot rule out ` +
      `that the ${made.unit.noun} levels off ${side} the target. The chance to have met it is ` +
      `${chance(made.chanceBy(samples, goal))} by N = ${count(samples)} and ${chance(reach)} by ` +
      `N = ${count(made.horizon)}.`,
      `Of the futures that meet it by N = ${count(until)}, nine in ten do with ${budget} ` +
      `samples${end}`,
    ];
  }

  function nextSteps({ samples, rounds: totals, nextRound }) {
    if (nextRound === null) return [];
    const next = count(nextRound);
    if (samples === null) {
      return [`Before giving up, measure once at N = ${next}: one more doubling tells a floor ` +
        "from a slow decline."];
    }
    if (totals.length === 1) return [`Collect up to N = ${next}, then plan again.`];
    return [`Do not collect it all at once: go to N = ${next} first, four times the pilot, and ` +
      "plan again; farther out the answer is often off by more than a factor of two."];
  }

  // ---- Two models ----

  /** Eq. (eq:prop2-twofactor) for two lines floor + slope log N / N, or why it has no answer. */
  function factors(known, dense, goal) {
    if (!(Number.isFinite(goal) && goal > 0)) {
      const got = Number.isInteger(goal) ? `${goal}.0` : general(goal, 6);
      return { unknown: `target must be a finite number > 0, got ${got}; ` +
        "give the squared error that you want to reach" };
    }
    const pairs = [[known, "the known-operator line"], [dense, "the dense line"]];
    for (const [line, what] of pairs) {
      if (goal <= line.floor) return { unknown: unreachable(goal, line.floor, what) };
      if (line.slope === 0) {
        return { unknown: `slope of ${what} must be > 0, got 0; without it N has no meaning` };
      }
    }
    const structural = dense.slope / known.slope;
    const budget = (goal - known.floor) / (goal - dense.floor);
    return { structural, budget, product: structural * budget };
  }

  function unreachable(goal, floor, what) {
    const gap = floor - goal, end = general(floor, 6);
    const excess = gap > 0 ? `${general(gap, 3)} above the target` : "which is the target itself";
    return `target ${general(goal, 6)} cannot be reached: ${what} levels off at ${end} however ` +
      `many samples there are, ${excess}; ask for more than ${end}, or lower the approximation ` +
      "and mismatch terms";
  }

  /** Samples of the second over samples of the first; null where one cannot be told. */
  function ratio(first, second) {
    return first.samples === null || second.samples === null
      ? null
      : second.samples / first.samples;
  }

  /** The 90% range of that ratio among the futures in which both meet the target. */
  function ratioRange(firstForecast, first, secondForecast, second) {
    if (ratio(first, second) === null) return null;
    const [below, above] = [[firstForecast, first], [secondForecast, second]].map(
      ([made, answer]) => spread(made, answer).map(Math.log));
    const logs = Float64Array.from(above.flatMap((b) => below.map((a) => b - a))).sort();
    return [quantile(logs, 0.05), quantile(logs, 0.95)].map(Math.exp);
  }

  /** Quantiles of N among the futures that meet the target before long. */
  function spread(made, { goal, ifMet }) {
    const start = Math.max(made.sizes[0], 0.5 * ifMet[0]); // no answer lies below the first N
    const logs = linspace(Math.log(start), Math.log(2 * ifMet[1]), 200);
    let most = 0;
    const met = logs.map((log) => {
      const moments = made.posterior.computedMoments(Math.exp(log));
      most = Math.max(most, made.posterior.under(Math.log(goal), moments));
      return most;
    });
    const shares = met.map((p) => Math.min(p / most, 1));
    return Array.from({ length: made.constants.shares }, (_, i) => {
      const share = (i + 0.5) / made.constants.shares;
      const reached = shares.findIndex((other) => other >= share);
      const after = Math.min(Math.max(reached, 1), logs.length - 1), before = after - 1;
      const rise = Math.max(shares[after] - shares[before], 1e-12);
      const part = Math.min(Math.max((share - shares[before]) / rise, 0), 1);
      return Math.exp(logs[before] * (1 - part) + logs[after] * part);
    });
  }

  /** The value below which a part p of the ascending ones lies, between neighbours. */
  function quantile(ascending, p) {
    const at = p * (ascending.length - 1);
    const index = Math.min(Math.floor(at), ascending.length - 2);
    return ascending[index] + (at - index) * (ascending[index + 1] - ascending[index]);
  }

  return Object.freeze({
    open: (data) => new Forecast(data),
    factors, ratio, ratioRange, unit, ndtr, general, value, chance, times, count,
  });
})();
