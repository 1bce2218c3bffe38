'use strict';

const { LineSplitter } = require('./lines');

/** Parses an event stream; see the README for the rules. */
class EventParser {
  constructor({ onEvent, onRetry = () => {} }) {
    this.onEvent = onEvent;
    this.onRetry = onRetry;
    this.lastEventId = '';
    this.splitter = new LineSplitter((line) => this.line(line));
    this.reset();
  }

  reset() {
    this.type = '';
    this.data = '';
  }

  write(chunk) {
    this.splitter.write(chunk);
  }

  end() {
    this.splitter.end();
    if (this.data) this.dispatch();
  }

  line(line) {
    if (line === '') {
      this.dispatch();
      return;
    }
    if (line.startsWith(':')) return;
    const [name, value = ''] = line.split(':');
    this.field(name, value.trim());
  }

  field(name, value) {
    switch (name) {
      case 'event':
        this.type = value;
        break;
      case 'data':
        this.data += this.data ? `\n${value}` : value;
        break;
      case 'id':
        this.lastEventId = value;
        break;
      case 'retry':
        if (!Number.isNaN(parseInt(value, 10))) this.onRetry(parseInt(value, 10));
        break;
      default:
    }
  }

  dispatch() {
    if (this.data) {
      this.onEvent({ type: this.type || 'message', data: this.data, id: this.lastEventId });
      this.reset();
    }
  }
}

module.exports = { EventParser };
