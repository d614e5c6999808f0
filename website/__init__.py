"""The site: `make docs` builds it from docs/, README.md, evidence/ and the docstrings.

python -m website            build/site, with any warning an error
website.reference            a place for every public name
website.coverage             what is not explained
website.repository           files of the repository as pages, and links to them
website.hooks                what MkDocs calls
"""
