'use strict';

const { EventParser } = require('./parser');
const { LineSplitter } = require('./lines');
const { parseAll, readEvents } = require('./read');

module.exports = { EventParser, LineSplitter, parseAll, readEvents };
