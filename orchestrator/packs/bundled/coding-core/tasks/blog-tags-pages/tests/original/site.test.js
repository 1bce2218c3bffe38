'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');
const { build, SourceError } = require('../lib/site');

function source(posts, site = { title: 'T' }) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'inkpot-'));
  fs.mkdirSync(path.join(folder, 'posts'));
  fs.writeFileSync(path.join(folder, 'site.json'), JSON.stringify(site));
  for (const [name, text] of Object.entries(posts)) fs.writeFileSync(path.join(folder, 'posts', name), text);
  return folder;
}

function read(target, relative) {
  return fs.readFileSync(path.join(target, relative), 'utf8');
}

test('posts are listed newest first, then by name', () => {
  const folder = source({
    'b.md': '---\ntitle: B\ndate: 2024-01-01\n---\n',
    'a.md': '---\ntitle: A\ndate: 2024-01-01\n---\n',
    'c.md': '---\ntitle: C\ndate: 2024-01-02\n---\n',
  });
  const target = path.join(folder, 'out');
  build(folder, target);
  const titles = [...read(target, 'index.html').matchAll(/<li><a href="[^"]+">([^<]+)/g)].map((match) => match[1]);
  assert.deepStrictEqual(titles, ['C', 'A', 'B']);
});

test('titles are escaped and base is used', () => {
  const folder = source({ 'x.md': '---\ntitle: a <b> & "c"\ndate: 2024-01-01\n---\nhi\n' }, { title: 'T', base: '/blog' });
  const target = path.join(folder, 'out');
  build(folder, target);
  const text = read(target, 'index.html');
  assert.ok(text.includes('<a href="/blog/posts/x/">a &lt;b&gt; &amp; &quot;c&quot;</a>'));
});

test('a bad date stops the build before anything is written', () => {
  const folder = source({ 'x.md': '---\ntitle: X\ndate: 2024-02-30\n---\n' });
  assert.throws(() => build(folder, path.join(folder, 'out')), SourceError);
  assert.ok(!fs.existsSync(path.join(folder, 'out')));
});
