// SPDX-License-Identifier: Apache-2.0
// A headless Chromium, steered through a pipe (the DevTools protocol): opens a page, waits until it says something,
// prints what an expression is, takes a picture. What the page logs as an error, breaks of its policy included, and
// every request to another origin is a failure.
//
//      node browser.js URL [--dark] [--width N] [--height N] [--wait EXPRESSION] [--shot FILE.png] [--until SECONDS] [EXPRESSION...]
'use strict';
const { spawn } = require('child_process'), fs = require('fs'), os = require('os'), path = require('path');

const options = { width: '1280', height: '1000', until: '40' }, expressions = [];
const words = process.argv.slice(2), url = words.shift();
while (words.length) {
        const word = words.shift();
        if (word === '--dark') options.dark = true;
        else if (word.startsWith('--')) options[word.slice(2)] = words.shift();
        else expressions.push(word);
}

const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'sublet-browser-'));
const chromium = spawn('chromium', ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
        '--disable-background-networking', '--disable-component-update', '--disable-sync', '--hide-scrollbars', '--force-color-profile=srgb',
        `--user-data-dir=${profile}`, `--window-size=${options.width},${options.height}`, '--remote-debugging-pipe', 'about:blank'],
{ stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'], detached: true });

const waiting = new Map(), complaints = [];
let serial = 0, heard = Buffer.alloc(0);
function send(method, params, sessionId) {
        const id = ++serial;
        chromium.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
        return new Promise((done, failed) => waiting.set(id, { done, failed }));
}

function onMessage(message) {
        const of = waiting.get(message.id);
        if (of) {
                waiting.delete(message.id);
                return message.error ? of.failed(new Error(message.error.message)) : of.done(message.result);
        }
        const p = message.params;
        if (message.method === 'Log.entryAdded' && p.entry.level === 'error')
                complaints.push(`${p.entry.text} ${p.entry.url || ''}`);
        if (message.method === 'Runtime.exceptionThrown')
                complaints.push(p.exceptionDetails.exception ? p.exceptionDetails.exception.description : p.exceptionDetails.text);
        if (message.method === 'Network.requestWillBeSent' && new URL(p.request.url).origin !== new URL(url).origin)
                complaints.push(`asked another origin: ${p.request.url}`);
        return undefined;
}

chromium.stdio[4].on('data', (data) => {
        heard = Buffer.concat([heard, data]);
        for (let end = heard.indexOf(0); end >= 0; end = heard.indexOf(0)) {
                onMessage(JSON.parse(heard.subarray(0, end).toString()));
                heard = heard.subarray(end + 1);
        }
});

const sleep = (ms) => new Promise((done) => { setTimeout(done, ms); });

async function main() {
        const { targetId } = await send('Target.createTarget', { url: 'about:blank' });
        const { sessionId } = await send('Target.attachToTarget', { targetId, flatten: true });
        const ask = (method, params) => send(method, params, sessionId);
        const evaluate = async (expression) => {
                const answer = await ask('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
                if (answer.exceptionDetails)
                        throw new Error(`${expression}: ${answer.exceptionDetails.exception.description}`);
                return answer.result.value;
        };
        for (const domain of ['Log', 'Runtime', 'Network', 'Page'])
                await ask(`${domain}.enable`, {});
        await ask('Emulation.setDeviceMetricsOverride', { width: Number(options.width), height: Number(options.height), deviceScaleFactor: 1, mobile: false });
        await ask('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: options.dark ? 'dark' : 'light' }] });
        await ask('Page.navigate', { url });
        const deadline = Date.now() + 1000 * Number(options.until);
        while (options.wait && !await evaluate(options.wait).catch(() => false)) {
                if (Date.now() > deadline)
                        throw new Error(`never came true: ${options.wait}; the page says: ${await evaluate('document.body.innerText')}`);
                await sleep(50);
        }
        for (const expression of expressions)
                process.stdout.write(`${await evaluate(expression)}\n`);
        if (options.shot)
                fs.writeFileSync(options.shot, Buffer.from((await ask('Page.captureScreenshot', { captureBeyondViewport: true })).data, 'base64'));
        if (complaints.length)
                throw new Error(complaints.join('\n'));
}

let code = 0;
const timer = setTimeout(() => { process.stderr.write('the browser does not answer\n'); end(1); }, 1000 * (Number(options.until) + 20));
function end(status) {
        clearTimeout(timer);
        try { process.kill(-chromium.pid, 'SIGKILL'); } catch { /* it is gone */ }
        setTimeout(() => { fs.rmSync(profile, { recursive: true, force: true, maxRetries: 5 }); process.exit(status); }, 100);
}
chromium.on('error', (error) => { process.stderr.write(`${error.message}\n`); end(1); });
main().catch((error) => { process.stderr.write(`${error.message}\n`); code = 1; }).finally(() => end(code));
