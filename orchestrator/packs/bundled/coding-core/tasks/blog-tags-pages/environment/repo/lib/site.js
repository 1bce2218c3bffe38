'use strict';

const fs = require('fs');
const path = require('path');
const { parseFrontMatter } = require('./frontmatter');
const { renderMarkdown } = require('./markdown');
const { indexPage, postPage } = require('./render');

/** A fault in a source file; the message starts with the file's name. */
class SourceError extends Error {}

function readSite(source) {
  const file = path.join(source, 'site.json');
  let site;
  try {
    site = JSON.parse(fs.readFileSync(file, 'utf8'));
  } catch (error) {
    throw new SourceError(`site.json: ${error.message}`);
  }
  if (typeof site.title !== 'string' || !site.title) throw new SourceError('site.json: title is missing');
  const base = site.base === undefined ? '/' : site.base;
  if (typeof base !== 'string') throw new SourceError('site.json: base is not a string');
  return { ...site, base: base.endsWith('/') ? base : `${base}/` };
}

function validDate(text) {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
  const time = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(time.getTime()) && time.toISOString().startsWith(text);
}

function readPost(folder, file) {
  const label = `posts/${file}`;
  let parsed;
  try {
    parsed = parseFrontMatter(fs.readFileSync(path.join(folder, file), 'utf8'));
  } catch (error) {
    throw new SourceError(`${label}: ${error.message}`);
  }
  const { title, date } = parsed.fields;
  if (!title) throw new SourceError(`${label}: title is missing`);
  if (!validDate(date || '')) throw new SourceError(`${label}: date must be YYYY-MM-DD`);
  return { name: file.slice(0, -'.md'.length), title, date, html: renderMarkdown(parsed.body) };
}

function newestFirst(left, right) {
  if (left.date !== right.date) return left.date < right.date ? 1 : -1;
  return left.name < right.name ? -1 : 1;
}

/** Read every post of a source folder, newest first. */
function readPosts(source) {
  const folder = path.join(source, 'posts');
  if (!fs.existsSync(folder)) return [];
  const files = fs.readdirSync(folder).filter((file) => file.endsWith('.md'));
  return files.map((file) => readPost(folder, file)).sort(newestFirst);
}

/** The pages of a site as a list of [relative path, text]. */
function pages(site, posts) {
  return [
    ['index.html', indexPage(site, posts)],
    ...posts.map((post) => [`posts/${post.name}/index.html`, postPage(site, post)]),
  ];
}

/** Build `source` into `target`; returns { files } with the relative paths written. */
function build(source, target) {
  const site = readSite(source);
  const made = pages(site, readPosts(source));
  for (const [relative, text] of made) {
    const place = path.join(target, relative);
    fs.mkdirSync(path.dirname(place), { recursive: true });
    fs.writeFileSync(place, text);
  }
  return { files: made.map(([relative]) => relative) };
}

module.exports = { SourceError, build, pages, readPosts, readSite };
