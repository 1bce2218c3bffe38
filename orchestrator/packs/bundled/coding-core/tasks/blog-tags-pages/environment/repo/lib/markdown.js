'use strict';

const { escapeHtml } = require('./escape');

function inline(text) {
  return escapeHtml(text)
    .replace(/`([^`]+)`/g, '<code>$1</code>')
    .replace(/\*\*([^*]+)\*\*/g, '<strong>$1</strong>')
    .replace(/\*([^*]+)\*/g, '<em>$1</em>')
    .replace(/\[([^\]]+)\]\(((?:https?:\/\/|\/|#)[^)\s]*)\)/g, '<a href="$2">$1</a>');
}

function block(lines) {
  const heading = /^(#{1,3}) (.+)$/.exec(lines[0]);
  if (heading && lines.length === 1) {
    const level = heading[1].length + 1;
    return `<h${level}>${inline(heading[2])}</h${level}>`;
  }
  if (lines.every((line) => line.startsWith('- '))) {
    return `<ul>\n${lines.map((line) => `<li>${inline(line.slice(2))}</li>`).join('\n')}\n</ul>`;
  }
  return `<p>${inline(lines.join('\n'))}</p>`;
}

/** Render the small Markdown subset that posts use: headings, lists, paragraphs and inline marks. */
function renderMarkdown(text) {
  const blocks = text.split(/\n\s*\n/).map((part) => part.split('\n').filter((line) => line.trim()));
  return blocks.filter((lines) => lines.length).map(block).join('\n');
}

module.exports = { renderMarkdown };
