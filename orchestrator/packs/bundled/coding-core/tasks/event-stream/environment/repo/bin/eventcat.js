#!/usr/bin/env node
'use strict';

const { readEvents } = require('../lib');

async function main() {
  for await (const event of readEvents(process.stdin)) process.stdout.write(`${JSON.stringify(event)}\n`);
}

main().catch((error) => {
  process.stderr.write(`eventcat: ${error.message}\n`);
  process.exitCode = 1;
});
