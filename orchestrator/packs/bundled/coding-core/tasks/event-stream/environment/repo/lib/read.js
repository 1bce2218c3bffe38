'use strict';

const { EventParser } = require('./parser');

/** Every event of a complete stream, given as a Buffer. */
function parseAll(buffer) {
  const events = [];
  const parser = new EventParser({ onEvent: (event) => events.push(event) });
  parser.write(buffer);
  parser.end();
  return events;
}

/** The events of an async iterable of Buffers, as they arrive. */
async function* readEvents(stream, options = {}) {
  const waiting = [];
  const parser = new EventParser({ ...options, onEvent: (event) => waiting.push(event) });
  for await (const chunk of stream) {
    parser.write(chunk);
    while (waiting.length) yield waiting.shift();
  }
  parser.end();
  while (waiting.length) yield waiting.shift();
}

module.exports = { parseAll, readEvents };
