#!/usr/bin/env node
'use strict';

const { build, SourceError } = require('../lib/site');

function main(argv) {
  const [command, source, target, ...rest] = argv;
  if (command !== 'build' || !source || !target || rest.length) {
    process.stderr.write('usage: inkpot build SOURCE TARGET\n');
    return 2;
  }
  try {
    const { files } = build(source, target);
    process.stdout.write(`${files.length} files written\n`);
    return 0;
  } catch (error) {
    if (!(error instanceof SourceError)) throw error;
    process.stderr.write(`inkpot: ${error.message}\n`);
    return 1;
  }
}

process.exitCode = main(process.argv.slice(2));
