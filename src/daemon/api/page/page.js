// SPDX-License-Identifier: Apache-2.0
// The page: polls the daemon and shows what it says. Nothing is changed from here.
'use strict';

const failures = new Map(); // of which question the last answer was none

// Every question's outcome ends here: the page says whether what it shows is live.
async function attempt(what, work) {
        try {
                await work();
                failures.delete(what);
        } catch (error) {
                failures.set(what, error instanceof TypeError ? 'the daemon does not answer; trying again' : error.message);
        }
        const state = document.getElementById('state'), text = failures.size ? [...failures.values()][0] : 'live';
        state.className = failures.size ? 'stale' : 'live';
        if (state.textContent !== text)
                state.textContent = text;
}

function nothing(body, columns, text) {
        refresh(body, [element('tr', {}, element('td', { colSpan: columns, className: 'nothing', textContent: text }))]);
}

// ---- devices ---------------------------------------------------------------------------------------------------------

function gauge(what, track, figure) {
        return element('div', { className: 'gauge' }, element('span', { className: 'what', textContent: what }), track,
                element('span', { className: 'figure', textContent: figure }));
}

function track(label) {
        const it = element('div', { className: 'track' });
        it.setAttribute('role', 'img');
        it.setAttribute('aria-label', label);
        return it;
}

function timeGauge(device, rows) {
        const said = rows.map((r) => `${r.tenant} ${percent(r.granted_permille)}`).join(', ');
        const it = track(`GPU time of the last second: ${said || 'nobody'}`);
        it.append(...rows.map((r) => Object.assign(part(r.tenant, r.granted_permille), { title: `${r.tenant}: ${percent(r.granted_permille)}` })));
        return gauge('GPU time', it, `${percent(device.busy_permille)} busy`);
}

// What is held, solid; what is leased besides, faint; what is free, not at all.
function memoryGauge(device, rows) {
        const said = rows.map((r) => `${r.tenant} ${bytes(r.held_bytes)} of ${bytes(r.quota_bytes)}`).join(', ');
        const it = track(`Memory: ${said || 'nobody holds any'}`);
        const scale = 1000 / Math.max(1, device.memory_bytes, rows.reduce((sum, r) => sum + Math.max(r.held_bytes, r.quota_bytes), 0));
        for (const r of rows)
                it.append(Object.assign(part(r.tenant, r.held_bytes * scale), { title: `${r.tenant} holds ${bytes(r.held_bytes)}` }),
                        Object.assign(part(r.tenant, Math.max(0, r.quota_bytes - r.held_bytes) * scale, 'leased'),
                                { title: `${r.tenant} may take ${bytes(Math.max(0, r.quota_bytes - r.held_bytes))} more` }));
        return gauge('Memory', it, `${bytes(device.held_bytes)} held, ${bytes(device.leased_bytes)} leased of ${bytes(device.memory_bytes)}`);
}

// What suspended tenants have in host memory instead, of what the host has for them; each where it comes from.
function hostGauge(device, rows) {
        const asleep = rows.filter((r) => r.swapped_bytes);
        const it = track(`In host memory: ${asleep.map((r) => `${r.tenant} ${bytes(r.swapped_bytes)}`).join(', ')}`);
        const scale = 1000 / Math.max(1, device.swap_bytes, asleep.reduce((sum, r) => sum + r.swapped_bytes, 0));
        it.append(...asleep.map((r) => Object.assign(part(r.tenant, r.swapped_bytes * scale), { title: `${r.tenant}: ${bytes(r.swapped_bytes)}` })));
        return gauge('In host', it, `${bytes(device.swap_used_bytes)} of suspended tenants${device.swap_bytes ? `, of ${bytes(device.swap_bytes)}` : ''}`);
}

function sharing(device) {
        const period = device.period_ns ? `, period ${span(device.period_ns)}` : '';
        return device.mode === 'time' ? `policy ${device.policy}${period}` : `mode ${device.mode}`;
}

// What the device tells of its health, and the sum of what the asker may not see.
function healthOf(device) {
        const health = device.health || {}, others = device.others || {}, parts = [];
        if (health.temperature_celsius)
                parts.push(`${number(health.temperature_celsius, 0)} °C`);
        if (health.power_watts)
                parts.push(`${number(health.power_watts, 0)}${health.power_limit_watts ? ` of ${number(health.power_limit_watts, 0)}` : ''} W`);
        if (health.sm_clock_hertz)
                parts.push(`${number(health.sm_clock_hertz / 1e6, 0)} MHz`);
        if (others.tenants)
                parts.push(`${others.tenants} of other users hold ${bytes(others.held_bytes)}`);
        return parts.join(', ');
}

function deviceCard(device, rows) {
        const name = element('p', { className: 'device-name' }, element('strong', { textContent: `${device.index}  ${device.name}` }),
                element('span', { textContent: device.uuid || '' }), element('span', { textContent: device.bus_id || '' }));
        if (device.state === 'lost')
                name.append(element('span', { className: 'lost', textContent: 'lost: the driver does not reach it' }));
        name.append(element('span', { textContent: sharing(device) }));
        const told = healthOf(device);
        if (told)
                name.append(element('span', { className: 'health', textContent: told }));
        const article = element('article', {}, name, timeGauge(device, rows), memoryGauge(device, rows));
        if (rows.some((r) => r.swapped_bytes))
                article.append(hostGauge(device, rows));
        return article;
}

// ---- tenants ---------------------------------------------------------------------------------------------------------

function timeCell(row) {
        const it = element('div', { className: 'track' }, part(row.tenant, row.granted_permille));
        const late = row.waiting && row.granted_permille + 10 < row.promised_permille;
        it.append(mark(row.share_permille, 'share'));
        if (row.cap_permille && row.cap_permille < 1000)
                it.append(mark(row.cap_permille, 'cap'));
        it.setAttribute('aria-hidden', 'true');
        it.title = `promised ${percent(row.promised_permille)}, marks: share${row.cap_permille < 1000 ? ' and cap' : ''}`;
        return element('div', { className: 'cell time' }, it,
                element('span', { className: `figure ${late ? 'warn' : ''}`, textContent: percent(row.granted_permille) }));
}

function memoryCell(row) {
        const full = row.held_bytes > row.quota_bytes ? 'bad' : row.held_bytes > row.quota_bytes * 0.95 ? 'warn' : '';
        const it = element('div', { className: 'track' }, part(row.tenant, row.held_bytes * 1000 / Math.max(1, row.quota_bytes)));
        it.setAttribute('aria-hidden', 'true');
        const cell = element('div', { className: 'cell' }, it,
                element('span', { className: `figure ${full}`, textContent: `${bytes(row.held_bytes)} / ${bytes(row.quota_bytes)}` }));
        return row.swapped_bytes ? [cell, element('small', { className: 'details', textContent: `${bytes(row.swapped_bytes)} in host memory` })] : [cell];
}

// Whether it is on the device, in the words of `sublet top`; one with --swap is out for others, or waits to come in.
function stateCell(row) {
        const isOut = row.state === 'suspended' && row.swap, isWaiting = Boolean(row.waiting || row.waits_for);
        const text = isOut ? `out${row.waits_for ? ', waits' : ''}` : /^(suspend|resum)/.test(row.state) ? row.state : row.waiting ? 'waits' : '';
        return element('td', { className: isWaiting ? 'warn' : '', textContent: text, title: row.waits_for ? `waits for ${row.waits_for}` : '' });
}

// Engines besides graphics and compute, loans, and processes: below the command.
function detailsOf(row) {
        const engines = Object.entries(row.engines || {}).filter(([, e]) => e.granted_permille || e.is_off)
                .map(([name, e]) => `${name} ${percent(e.granted_permille)}${e.is_off ? ' (waits)' : ''}`);
        const loans = (list, word) => (list || []).map((l) => `${word} ${l.tenant} ${bytes(l.bytes)}`);
        const processes = (row.holders || []).map((p) => `${p.pid} ${p.command} ${bytes(p.held_bytes)}`);
        return [...engines, ...loans(row.borrowed, 'borrowed of'), ...loans(row.lent, 'lent to'), ...processes].join(', ');
}

function tenantRow(row) {
        const td = (className, text) => element('td', { className, textContent: text });
        const name = element('th', { scope: 'row' }, element('span', { className: `swatch t${colourOf(row.tenant)}` }), row.tenant);
        return element('tr', {}, name, td('n', row.index), td('', row.class), element('td', {}, timeCell(row)), td('n', percent(row.share_permille)),
                td('n', row.cap_permille && row.cap_permille < 1000 ? percent(row.cap_permille) : '–'), element('td', {}, ...memoryCell(row)),
                td(`n ${row.refused ? 'warn' : ''}`, number(row.refused, 0)), stateCell(row),
                Object.assign(element('td', { className: 'command' }, row.command || '', element('small', { className: 'details', textContent: detailsOf(row) })), { title: `${row.command || ''} (uid ${row.uid}, ${row.processes} processes${row.job ? `, job ${row.job}` : ''}${row.group ? `, group ${row.group}` : ''}${row.sms ? `, multiprocessors: ${row.sms}` : ''})` }));
}

function rowsOf(tenants) {
        const rows = tenants.flatMap((t) => t.devices.map((d) => ({ ...t, ...d })));
        return rows.sort((a, b) => a.tenant.localeCompare(b.tenant) || a.index - b.index);
}

async function showTenants() {
        const [tenants, devices] = await Promise.all([ask('v1/tenants'), ask('v1/devices')]);
        const rows = rowsOf(tenants), body = document.querySelector('#tenants tbody');
        refresh(document.getElementById('devices'), devices.map((d) => deviceCard(d, rows.filter((r) => r.index === d.index))));
        if (rows.length)
                refresh(body, rows.map(tenantRow));
        else
                nothing(body, 10, 'No tenants. One is started by: sublet run --mem 8G --share 30 -- COMMAND');
        chooseDevice(devices);
}

// More than one device: the timeline shows one at a time.
function chooseDevice(devices) {
        const select = document.getElementById('device'), indices = devices.map((d) => String(d.index));
        document.getElementById('device-choice').hidden = devices.length < 2;
        if ([...select.options].map((o) => o.value).join() === indices.join())
                return;
        select.replaceChildren(...devices.map((d) => element('option', { value: d.index, textContent: `${d.index}  ${d.name}` })));
        select.value = String(timeline.device);
}

// ---- usage, events ---------------------------------------------------------------------------------------------------

async function showUsage() {
        const entries = await ask(`v1/usage?since=${document.getElementById('since').value}`);
        const body = document.querySelector('#usage tbody');
        const row = (className, name, device, seconds, hours, peak, refused) => element('tr', { className },
                element('th', { scope: 'row', textContent: name }), element('td', { className: 'n', textContent: device }),
                element('td', { className: 'n', textContent: number(seconds, 1) }), element('td', { className: 'n', textContent: number(hours, 3) }),
                element('td', { className: 'n', textContent: peak }), element('td', { className: 'n', textContent: number(refused, 0) }));
        const sum = (of) => entries.reduce((s, e) => s + (e[of] || 0), 0);
        const rows = entries.map((e) => row('', e.tenant, e.device, e.gpu_seconds, e.gib_hours, bytes(e.peak_bytes), e.refused));
        if (rows.length > 1)
                rows.push(row('total', 'all', '', sum('gpu_seconds'), sum('gib_hours'), '', sum('refused')));
        if (rows.length)
                refresh(body, rows);
        else
                nothing(body, 6, 'Nobody has used anything.');
}

// Those of the last day at first, then what is new; by number, for the last second's may come twice.
const events = new Map();
async function showEvents() {
        const list = document.getElementById('events'), newest = Math.max(0, ...[...events.values()].map((e) => e.time));
        for (const e of await ask(`v1/events?since=${newest ? Math.floor(newest) : '24h'}`))
                events.set(e.id, e);
        const latest = [...events.values()].sort((a, b) => a.time - b.time || a.id - b.id).slice(-50);
        events.clear();
        latest.forEach((e) => events.set(e.id, e));
        const item = (e) => {
                const when = new Date(e.time * 1000), level = { WARN: 'warn', ALERT: 'bad' }[e.level] || '';
                const text = `${e.tenant ? `${e.tenant}: ` : ''}${e.line}${e.detail ? `: ${e.detail}` : ''}`;
                return element('li', {}, element('time', { dateTime: when.toISOString(), textContent: when.toLocaleTimeString('en-GB') }),
                        element('span', {}, element('span', { className: `name ${level}`, textContent: e.name }), ` ${text}`));
        };
        const items = latest.reverse().map(item);
        refresh(list, items.length ? items : [element('li', { className: 'nothing', textContent: 'Nothing has happened in the last day.' })]);
}

async function showMachine() {
        const v = await ask('v1/version');
        document.getElementById('machine').textContent =
                `${location.hostname} · ${v.backend === 'sim' ? 'simulated ' : ''}driver ${v.driver} · sublet ${v.sublet}`;
}

document.getElementById('device').addEventListener('change', (event) => {
        timeline.device = Number(event.target.value);
        timeline.forget();
});
timeline.begin();
every(30000, () => attempt('version', showMachine));
every(1000, () => attempt('tenants', showTenants));
every(250, () => attempt('timeline', () => timeline.poll()));
every(5000, () => attempt('events', showEvents));
document.getElementById('since').addEventListener('change', every(10000, () => attempt('usage', showUsage)));
