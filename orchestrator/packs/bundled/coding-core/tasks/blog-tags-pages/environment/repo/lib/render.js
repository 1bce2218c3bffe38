'use strict';

const { escapeHtml } = require('./escape');

/** A whole page around a body. */
function page(site, title, body) {
  const heading = title === site.title ? site.title : `${title} - ${site.title}`;
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>${escapeHtml(heading)}</title></head>
<body>
<header><a href="${escapeHtml(site.base)}">${escapeHtml(site.title)}</a></header>
<main>
${body}
</main>
</body>
</html>
`;
}

function postUrl(site, post) {
  return `${site.base}posts/${encodeURIComponent(post.name)}/`;
}

/** A list of posts in the given order. */
function postList(site, posts) {
  const items = posts.map((post) =>
    `<li><a href="${escapeHtml(postUrl(site, post))}">${escapeHtml(post.title)}</a> <time>${post.date}</time></li>`);
  return `<ul class="posts">\n${items.join('\n')}\n</ul>`;
}

function indexPage(site, posts) {
  return page(site, site.title, postList(site, posts));
}

function postPage(site, post) {
  return page(site, post.title,
    `<article>\n<h1>${escapeHtml(post.title)}</h1>\n<time>${post.date}</time>\n${post.html}\n</article>`);
}

module.exports = { indexPage, page, postList, postPage, postUrl };
