'use strict';

/**
 * Split a source text into its front matter and its body.
 * Returns { fields, body }; throws Error if the front matter is not closed or a line is not `key: value`.
 */
function parseFrontMatter(text) {
  const lines = text.replace(/\r\n/g, '\n').split('\n');
  if (lines[0] !== '---') return { fields: {}, body: lines.join('\n') };
  const end = lines.indexOf('---', 1);
  if (end < 0) throw new Error('front matter is not closed');
  const fields = {};
  for (const line of lines.slice(1, end)) {
    if (!line.trim()) continue;
    const colon = line.indexOf(':');
    if (colon < 1) throw new Error(`not a "key: value" line: ${line}`);
    fields[line.slice(0, colon).trim().toLowerCase()] = line.slice(colon + 1).trim();
  }
  return { fields, body: lines.slice(end + 1).join('\n') };
}

module.exports = { parseFrontMatter };
