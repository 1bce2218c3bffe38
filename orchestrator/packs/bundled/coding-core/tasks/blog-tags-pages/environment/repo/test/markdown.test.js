'use strict';

const assert = require('node:assert');
const test = require('node:test');
const { renderMarkdown } = require('../lib/markdown');
const { parseFrontMatter } = require('../lib/frontmatter');

test('paragraphs, lists and marks', () => {
  assert.strictEqual(renderMarkdown('a *b* `c`\n\n- x\n- y\n'),
    '<p>a <em>b</em> <code>c</code></p>\n<ul>\n<li>x</li>\n<li>y</li>\n</ul>');
});

test('raw HTML and script links are not passed through', () => {
  assert.strictEqual(renderMarkdown('<b>x</b> [y](javascript:alert)'),
    '<p>&lt;b&gt;x&lt;/b&gt; [y](javascript:alert)</p>');
});

test('front matter', () => {
  assert.deepStrictEqual(parseFrontMatter('---\nTitle: a: b\n---\nbody'), { fields: { title: 'a: b' }, body: 'body' });
  assert.throws(() => parseFrontMatter('---\ntitle: a\n'), /not closed/);
});
