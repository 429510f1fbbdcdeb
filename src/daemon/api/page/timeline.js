// SPDX-License-Identifier: Apache-2.0
// The timeline: a lane for the device, in which everybody is, and one for each tenant. What is drawn is how much of each
// pixel's time somebody was on the device, so that a second of 500 turns is as true as a millisecond of one.
'use strict';

const timeline = {
        canvas: document.getElementById('timeline'),
        tip: document.getElementById('tip'),
        said: document.getElementById('timeline-said'),
        device: 0,
        names: [],       // of all tenants, in order
        lanes: [],       // of those that have a lane
        epoch: null,     // what to add to the daemon's ns for the time of day
        spans: [],       // { name, on, off }: by `on`
        from: 0, to: 0,  // what has been heard, in the daemon's ns
        heardAt: 0,      // when `to` was, by the page's clock (ms)
        ahead: null,     // what the daemon's ns are before the page's, smoothed
        width: 2000,     // of the window, ms
        paused: false,
        end: 0,          // right edge while paused, ns
        cursor: null,    // { name, on, off }
        colours: null,
};

const WINDOWS = [100, 250, 500, 1000, 2000, 5000, 10000, 30000];
const LAG = 500e6; // drawn so far behind what is, that what is drawn has been heard
const GUTTER = 132, RIGHT = 62, LANE = 26, GAP = 6, AXIS = 24, TOP = 4;
const NOBODY = '(no tenant)', LANES_MAX = 24;

// ---- what is heard ---------------------------------------------------------------------------------------------------

// New spans replace what was heard of the same time: the last answer ended in the middle of some.
timeline.hear = function (answer) {
        const from = answer.from_ns;
        if (from > this.to + 1e9 || from < this.from - 60e9) // a gap, or a clock that is another (the machine was restarted)
                this.spans = [];
        this.spans = this.spans.filter((s) => s.on < from && s.off > answer.to_ns - 31e9);
        for (const s of this.spans)
                s.off = Math.min(s.off, from);
        for (const [index, on, off] of answer.spans) {
                const name = answer.tenants[index] === undefined ? NOBODY : answer.tenants[index];
                const last = this.spans.length ? this.spans[this.spans.length - 1] : null;
                if (last && last.name === name && last.off === from && on <= from) // one that was cut in two
                        last.off = off;
                else
                        this.spans.push({ name, on: Math.max(on, from), off });
        }
        this.from = this.spans.length ? Math.min(from, this.spans[0].on) : from;
        this.to = answer.to_ns;
        this.heardAt = performance.now();
        const ahead = answer.to_ns - this.heardAt * 1e6; // answers take now longer and now shorter: the picture shall not
        this.ahead = this.ahead === null || Math.abs(ahead - this.ahead) > 200e6 ? ahead : this.ahead + (ahead - this.ahead) / 16;
        const names = new Set(answer.tenants);
        for (const s of this.spans)
                names.add(s.name);
        this.names = [...names].sort();
        this.lanes = this.lanesOf();
        const epoch = Date.now() * 1e6 - answer.to_ns;
        if (this.epoch === null || Math.abs(this.epoch - epoch) > 1e9)
                this.epoch = epoch;
};

// So many lanes as can be looked at: of more tenants, those that were on for longest.
timeline.lanesOf = function () {
        const had = new Map(this.names.map((name) => [name, 0]));
        for (const s of this.spans)
                had.set(s.name, had.get(s.name) + s.off - s.on);
        return [...this.names].sort((a, b) => had.get(b) - had.get(a)).slice(0, LANES_MAX).sort();
};

timeline.poll = async function () {
        if (this.paused)
                return;
        const since = this.to ? performance.now() - this.heardAt + 250 : Infinity;
        const ms = Math.min(Math.max(this.width + LAG / 1e6, 2500), Math.ceil(since));
        const device = this.device;
        const answer = await ask(`v1/timeline?device=${device}&for_ms=${Math.min(ms, 31000)}`);
        if (device === this.device)
                this.hear(answer);
};

timeline.forget = function () {
        Object.assign(this, { spans: [], names: [], lanes: [], from: 0, to: 0, cursor: null });
};

// ---- what is drawn ---------------------------------------------------------------------------------------------------

timeline.rightEdge = function () {
        return this.paused ? this.end : performance.now() * 1e6 + this.ahead - LAG;
};

timeline.readColours = function () {
        const style = getComputedStyle(document.documentElement);
        const of = (name) => style.getPropertyValue(name).trim();
        this.colours = { text: of('--text'), quiet: of('--quiet'), line: of('--line'), track: of('--track'), accent: of('--accent'),
                tenants: Array.from({ length: 10 }, (_, i) => of(`--t${i}`)) };
};

timeline.colour = function (name) {
        return name === NOBODY ? this.colours.quiet : this.colours.tenants[colourOf(name)];
};

// Of each tenant: how much of each pixel it was on for, and of the whole window.
timeline.coverage = function (from, to, pixels) {
        const lanes = new Map(this.names.map((name) => [name, { bins: new Float32Array(pixels + 1), sum: 0 }]));
        const scale = pixels / (to - from);
        for (const s of this.spans) {
                if (s.off <= from || s.on >= to)
                        continue;
                const lane = lanes.get(s.name);
                const a = (Math.max(s.on, from) - from) * scale, b = (Math.min(s.off, to) - from) * scale;
                const first = Math.floor(a), last = Math.floor(b);
                lane.sum += (b - a) / pixels;
                if (first === last) {
                        lane.bins[first] += b - a;
                        continue;
                }
                lane.bins[first] += first + 1 - a;
                lane.bins.fill(1, first + 1, last);
                lane.bins[last] += b - last;
        }
        return lanes;
};

// Runs of equal cover are one rectangle. base: from where in the lane's height it is filled (0 to 1, per pixel).
function drawBins(context, bins, x, y, height, base) {
        const level = (i) => Math.round(Math.min(1, bins[i]) * 32);
        for (let i = 0; i < bins.length;) {
                let n = 1;
                while (i + n < bins.length && level(i + n) === level(i) && (!base || base[i + n] === base[i]))
                        n++;
                if (level(i) && !base) {
                        context.globalAlpha = level(i) / 32;
                        context.fillRect(x + i, y, n, height);
                } else if (level(i)) {
                        context.fillRect(x + i, y + (1 - base[i] - level(i) / 32) * height, n, level(i) / 32 * height + 0.5);
                }
                i += n;
        }
        context.globalAlpha = 1;
}

function laneTop(i) {
        return TOP + i * (LANE + GAP) + (i ? GAP : 0);
}

timeline.drawAxis = function (context, from, to, x, width, y) {
        const steps = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];
        const step = (steps.find((s) => (to - from) / 1e6 / s * 88 <= width) || 10000) * 1e6;
        let isFirst = true; // says all of the time; the others only what is new
        context.textAlign = 'center';
        for (let t = Math.ceil((from + this.epoch) / step) * step - this.epoch; t <= to; t += step) {
                const at = x + (t - from) / (to - from) * width;
                context.fillStyle = this.colours.line;
                context.fillRect(Math.round(at), TOP, 1, y - TOP + 4);
                if (at < x + 40 || at > x + width - 40)
                        continue;
                context.fillStyle = this.colours.quiet;
                context.fillText(timeOfDay((t + this.epoch) / 1e6, step / 1e6, isFirst), at, y + 17);
                isFirst = false;
        }
};

// "10:30:05", between seconds ".250", the first "10:30:04.900"
function timeOfDay(ms, step, isFirst) {
        const at = new Date(Math.round(ms)), ms3 = String(at.getMilliseconds()).padStart(3, '0');
        const fraction = at.getMilliseconds() ? `.${ms3.slice(0, step % 100 ? 3 : 1)}` : '';
        return isFirst || !fraction ? at.toLocaleTimeString('en-GB') + fraction : fraction;
}

timeline.drawLabel = function (context, name, text, y) {
        const shown = name.length > 17 ? `${name.slice(0, 16)}…` : name;
        context.textAlign = 'left';
        context.fillStyle = this.colours.text;
        context.fillText(shown, 0, y + LANE / 2 + 4);
        context.textAlign = 'right';
        context.fillStyle = this.colours.quiet;
        context.fillText(text, this.canvas.clientWidth - 2, y + LANE / 2 + 4);
};

timeline.draw = function () {
        const width = this.canvas.clientWidth, n = this.lanes.length, height = laneTop(Math.max(n, 1) + 1) + AXIS;
        const ratio = window.devicePixelRatio || 1, context = this.canvas.getContext('2d');
        if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
                this.canvas.width = Math.round(width * ratio);
                this.canvas.height = Math.round(height * ratio);
                this.canvas.style.height = `${height}px`;
        }
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        context.clearRect(0, 0, width, height);
        context.font = '12.5px system-ui, sans-serif';
        const pixels = Math.max(50, Math.floor(width - GUTTER - RIGHT));
        const to = this.rightEdge(), from = to - this.width * 1e6;
        const lanes = this.coverage(from, to, pixels), base = new Float32Array(pixels + 1);
        let sum = 0;
        context.fillStyle = this.colours.track;
        for (let i = 0; i <= n; i++)
                context.fillRect(GUTTER, laneTop(i), pixels, LANE);
        this.drawAxis(context, from, to, GUTTER, pixels, laneTop(n + 1));
        this.names.forEach((name) => {
                const { bins, sum: part } = lanes.get(name), lane = this.lanes.indexOf(name);
                context.fillStyle = this.colour(name);
                if (lane >= 0)
                        drawBins(context, bins.subarray(0, pixels), GUTTER, laneTop(lane + 1), LANE);
                drawBins(context, bins.subarray(0, pixels), GUTTER, laneTop(0), LANE, base);
                for (let k = 0; k < pixels; k++)
                        base[k] = Math.min(1, base[k] + Math.round(Math.min(1, bins[k]) * 32) / 32);
                if (lane >= 0)
                        this.drawLabel(context, name, percent(part * 1000), laneTop(lane + 1));
                sum += part;
        });
        this.drawLabel(context, `device ${this.device}`, percent(sum * 1000), laneTop(0));
        this.drawCursor(context, from, to, pixels);
        this.parts = this.lanes.map((name) => `${name} ${percent(lanes.get(name).sum * 1000)}`);
};

timeline.drawCursor = function (context, from, to, pixels) {
        const lane = this.cursor ? this.lanes.indexOf(this.cursor.name) : -1;
        if (lane < 0 || this.cursor.off < from || this.cursor.on > to)
                return;
        const a = GUTTER + Math.max(0, (this.cursor.on - from) / (to - from)) * pixels;
        const b = GUTTER + Math.min(1, (this.cursor.off - from) / (to - from)) * pixels;
        context.strokeStyle = this.colours.text;
        context.lineWidth = 1.5;
        context.strokeRect(a - 1, laneTop(lane + 1) - 1, Math.max(2, b - a) + 2, LANE + 2);
};

// ---- what the operator does ------------------------------------------------------------------------------------------

timeline.pause = function (paused) {
        this.end = this.rightEdge();
        this.paused = paused;
        const button = document.getElementById('pause');
        button.setAttribute('aria-pressed', String(paused));
        button.textContent = paused ? 'Go on' : 'Pause';
        if (!paused) {
                this.forget();
                this.point(null);
        }
};

timeline.zoom = function (width) {
        this.width = width;
        for (const button of document.querySelectorAll('#windows button'))
                button.setAttribute('aria-pressed', String(Number(button.value) === width));
        if (!this.paused && (this.to - this.from) / 1e6 < width)
                this.forget();
};

timeline.say = (s) => `${s.name}: ${span(s.off - s.on)} on the device`;

// Shows what a span is; null: nothing.
timeline.point = function (s, x) {
        this.cursor = s;
        this.tip.hidden = !s;
        if (!s)
                return;
        this.tip.textContent = this.say(s);
        const at = x === undefined ? GUTTER + (s.on - this.rightEdge() + this.width * 1e6) / (this.width * 1e6) *
                (this.canvas.clientWidth - GUTTER - RIGHT) : x;
        this.tip.style.left = `${Math.max(0, Math.min(at + 12, this.canvas.clientWidth - this.tip.offsetWidth))}px`;
        this.tip.style.top = `${laneTop(this.lanes.indexOf(s.name) + 1) + LANE + 6}px`;
};

timeline.spanAt = function (x, y) {
        const pixels = this.canvas.clientWidth - GUTTER - RIGHT, to = this.rightEdge(), from = to - this.width * 1e6;
        const t = from + (x - GUTTER) / pixels * (to - from), slack = (to - from) / pixels;
        const lane = this.lanes.findIndex((_, i) => y >= laneTop(i + 1) && y < laneTop(i + 1) + LANE);
        const isHit = (s) => s.on - slack <= t && t <= s.off + slack;
        if (x < GUTTER || x > GUTTER + pixels)
                return null;
        return this.spans.find((s) => isHit(s) && (lane < 0 ? y < laneTop(1) : s.name === this.lanes[lane])) || null;
};

// From turn to turn, of those in sight.
timeline.step = function (by) {
        const to = this.rightEdge(), from = to - this.width * 1e6;
        const seen = this.spans.filter((s) => s.off > from && s.on < to);
        if (!seen.length)
                return;
        const at = seen.indexOf(this.cursor);
        const next = at < 0 ? (by < 0 ? seen.length - 1 : 0) : Math.max(0, Math.min(seen.length - 1, at + by));
        this.point(seen[next]);
        this.said.textContent = this.say(seen[next]);
};

timeline.onKey = function (event) {
        const at = WINDOWS.indexOf(this.width);
        const actions = {
                ' ': () => this.pause(!this.paused),
                '+': () => this.zoom(WINDOWS[Math.max(0, at - 1)]),
                '=': () => this.zoom(WINDOWS[Math.max(0, at - 1)]),
                '-': () => this.zoom(WINDOWS[Math.min(WINDOWS.length - 1, at + 1)]),
                ArrowLeft: () => { this.paused || this.pause(true); this.step(-1); },
                ArrowRight: () => { this.paused || this.pause(true); this.step(1); },
                Escape: () => this.point(null),
        };
        if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey)
                return;
        event.preventDefault();
        actions[event.key]();
};

timeline.begin = function () {
        const windows = document.getElementById('windows'), still = matchMedia('(prefers-reduced-motion: reduce)');
        for (const ms of WINDOWS) {
                const text = ms < 1000 ? `${ms} ms` : `${ms / 1000} s`;
                const button = element('button', { type: 'button', value: ms, textContent: text });
                button.addEventListener('click', () => this.zoom(ms));
                windows.append(button);
        }
        this.zoom(this.width);
        this.readColours();
        matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.readColours());
        document.getElementById('pause').addEventListener('click', () => this.pause(!this.paused));
        this.canvas.addEventListener('keydown', (event) => this.onKey(event));
        this.canvas.addEventListener('pointermove', (event) => this.point(this.spanAt(event.offsetX, event.offsetY), event.offsetX));
        this.canvas.addEventListener('pointerleave', () => this.paused || this.point(null));
        const frame = () => {
                this.draw();
                setTimeout(() => requestAnimationFrame(frame), still.matches ? 1000 : 20);
        };
        frame();
        // For those who hear the page: what the picture says, now and then.
        const label = () => this.canvas.setAttribute('aria-label',
                `Device ${this.device}, the last ${this.width / 1000} seconds: ${this.parts.join(', ') || 'nobody was on it'}`);
        label();
        setInterval(label, 2000);
};
