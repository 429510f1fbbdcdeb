// SPDX-License-Identifier: Apache-2.0
// Asking the daemon, saying figures, and making elements. Text that others chose is only ever set as text.
'use strict';

const GIB = 2 ** 30;

// What the daemon says to a question; an error is thrown with its own line.
async function ask(path) {
        const answer = await fetch(path, { cache: 'no-store' });
        const body = await answer.json().catch(() => ({}));
        if (!answer.ok)
                throw new Error(body.error || `the daemon answered with status ${answer.status}`);
        return body;
}

// element('td', { className: 'n' }, child, 'text', ...)
function element(name, properties, ...children) {
        const it = Object.assign(document.createElement(name), properties);
        it.append(...children);
        return it;
}

// Makes the children of an element those; what is equal stays as it is, with what is selected or pointed at in it.
function refresh(parent, fresh) {
        fresh.forEach((it, i) => {
                const old = parent.children[i];
                if (!old)
                        parent.append(it);
                else if (old.isEqualNode(it))
                        return;
                else if (old.tagName === it.tagName && it.children.length && [...it.childNodes].every((n) => n.nodeType === Node.ELEMENT_NODE) &&
                        old.cloneNode().isEqualNode(it.cloneNode()))
                        refresh(old, [...it.children]);
                else
                        old.replaceWith(it);
        });
        while (parent.children.length > fresh.length)
                parent.lastElementChild.remove();
}

function bytes(n) {
        const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
        let i = 0;
        for (; n >= 1024 && i + 1 < units.length; i++)
                n /= 1024;
        return `${i && n < 100 ? Math.floor(n * 10) / 10 : Math.floor(n)} ${units[i]}`;
}

const percent = (permille) => `${((permille || 0) / 10).toFixed(1)}%`;
const number = (n, digits) => (n || 0).toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });

// A span in nanoseconds, in its own unit.
function span(ns) {
        if (ns >= 1e9)
                return `${(ns / 1e9).toFixed(2)} s`;
        return ns >= 1e6 ? `${(ns / 1e6).toFixed(2)} ms` : `${(ns / 1e3).toFixed(0)} µs`;
}

// A tenant keeps its colour for as long as the page is open; there are ten.
const colours = new Map();
function colourOf(tenant) {
        if (!colours.has(tenant))
                colours.set(tenant, colours.size % 10);
        return colours.get(tenant);
}

// Part of a track, in thousandths of its width.
function part(tenant, permille, more) {
        const it = element('i', { className: `t${colourOf(tenant)} ${more || ''}` });
        it.style.width = `${Math.max(0, Math.min(1000, permille)) / 10}%`;
        return it;
}

function mark(permille, className) {
        const it = element('span', { className: `mark ${className}` });
        it.style.left = `calc(${permille / 10}% - 1px)`;
        return it;
}

// Calls `work` now and then every `period` ms while the page is in sight; a slow answer delays the next question.
function every(period, work) {
        let timer = 0;
        const step = async () => {
                clearTimeout(timer);
                if (!document.hidden)
                        await work();
                timer = setTimeout(step, period);
        };
        document.addEventListener('visibilitychange', () => document.hidden || step());
        step();
        return step;
}
