"""HTML."""


def page(title, body):
    return f"<!doctype html>\n<title>{title}</title>\n{body}\n".encode()


def login_page(next_page, message=""):
    return page("Log in", f"""<p class="message">{message}</p>
<form method="post" action="/login">
<input name="user"><input name="password" type="password"><input type="hidden" name="next" value="{next_page}">
<button>Log in</button></form>""")


def list_page(notes, query):
    rows = "\n".join(f'<li><a href="/notes/{note["id"]}">{note["title"]}</a> by {note["owner"]}</li>' for note in notes)
    return page("Notes", f'<form><input name="q" value="{query}"></form>\n<ul>\n{rows}\n</ul>')


def note_page(note):
    link = ""
    if note["attachment"]:
        link = f'<p><a href="/files/{note["attachment"]}">{note["attachment"]}</a></p>'
    return page(note["title"], f"<h1>{note['title']}</h1>\n<pre>{note['text']}</pre>\n{link}")
