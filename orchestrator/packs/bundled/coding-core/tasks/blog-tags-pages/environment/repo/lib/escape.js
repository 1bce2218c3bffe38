'use strict';

const NAMES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** Escape text for HTML content and attribute values. */
function escapeHtml(text) {
  return String(text).replace(/[&<>"']/g, (character) => NAMES[character]);
}

module.exports = { escapeHtml };
