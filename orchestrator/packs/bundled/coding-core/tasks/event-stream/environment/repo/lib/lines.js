'use strict';

/** Turns chunks of bytes into lines and calls `onLine` for each, without its line end. */
class LineSplitter {
  constructor(onLine) {
    this.onLine = onLine;
    this.rest = '';
  }

  write(chunk) {
    const text = this.rest + chunk.toString('utf8');
    const lines = text.split(/\r\n|\n|\r/);
    this.rest = lines.pop();
    for (const line of lines) this.onLine(line);
  }

  /** The stream is over; a line without an end does not count. */
  end() {
    this.rest = '';
  }
}

module.exports = { LineSplitter };
