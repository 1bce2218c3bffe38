'use strict';

const assert = require('node:assert');
const test = require('node:test');
const { parseAll, readEvents, EventParser } = require('../lib');

test('a simple event', () => {
  assert.deepStrictEqual(parseAll(Buffer.from('event: tick\ndata: 1\nid: 7\n\n')), [{ type: 'tick', data: '1', id: '7' }]);
});

test('several data lines', () => {
  assert.deepStrictEqual(parseAll(Buffer.from('data: a\ndata: b\n\n')), [{ type: 'message', data: 'a\nb', id: '' }]);
});

test('comments are skipped', () => {
  assert.deepStrictEqual(parseAll(Buffer.from(': hello\ndata: x\n\n')), [{ type: 'message', data: 'x', id: '' }]);
});

test('retry', () => {
  const seen = [];
  const parser = new EventParser({ onEvent: () => {}, onRetry: (milliseconds) => seen.push(milliseconds) });
  parser.write(Buffer.from('retry: 1500\n'));
  assert.deepStrictEqual(seen, [1500]);
});

test('events of a stream', async () => {
  async function* stream() {
    yield Buffer.from('data: a\n\nda');
    yield Buffer.from('ta: b\n\n');
  }
  const found = [];
  for await (const event of readEvents(stream())) found.push(event.data);
  assert.deepStrictEqual(found, ['a', 'b']);
});
