"""`same-question-bt/1`: who wins more often on the same question (three levels of pages, seed rules S1-1 ..
S1-32).

`score` is the scorer over verified tries, `pages` the computation over plain runs, `board` the results.
Modules that need numpy (`tasks`, `pairs`, `operators`, `solver`, `sandwich`) are imported only when a page
is computed.
"""
