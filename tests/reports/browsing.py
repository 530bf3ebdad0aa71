"""What the browser tests ask of a page, as functions that run inside of it."""

from contextlib import contextmanager

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]

OPEN_ALL = "document.querySelectorAll('details').forEach(element => { element.open = true })"

OVERFLOW = """() => {
  const limit = document.documentElement.clientWidth;
  const inside = element => element.closest('.scroll, pre, svg, nav, caption');
  return [...document.querySelectorAll('body *')]
    .filter(element => !inside(element) && element.getBoundingClientRect().right > limit + 1)
    .map(element => element.tagName + '.' + element.className);
}"""
"""What stands out of the page on the right, but for what scrolls in a box of its own."""

CUT_OFF = """() => [...document.querySelectorAll('.scroll, pre')]
  .filter(box => box.clientWidth && box.scrollWidth > box.clientWidth + 1)
  .map(box => [box.getAttribute('aria-label') ?? box.textContent.slice(0, 60), box.scrollWidth, box.clientWidth])"""
"""Boxes with more than they show: paper does not scroll."""

HEADINGS = """() => [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map(h => Number(h.localName[1]))"""

NAMELESS = """() => {
  const faults = [], told = element => (element?.textContent ?? '').trim();
  const say = (what, element) => faults.push(what + ': ' + element.outerHTML.slice(0, 120));
  for (const table of document.querySelectorAll('table')) {
    if (!told(table.caption)) say('table without caption', table);
    for (const head of table.querySelectorAll('thead th')) if (head.scope !== 'col') say('scope', head);
    for (const head of table.querySelectorAll('tbody th')) if (head.scope !== 'row') say('scope', head);
  }
  for (const svg of document.querySelectorAll('svg')) {
    if (svg.getAttribute('aria-hidden') === 'true') continue;
    if (svg.getAttribute('role') !== 'img' || !svg.getAttribute('aria-label')) say('drawing without words', svg);
  }
  for (const figure of document.querySelectorAll('figure')) {
    if (!told(figure.querySelector('figcaption'))) say('figure without caption', figure);
  }
  for (const element of document.querySelectorAll('a, button, input, summary')) {
    if (!told(element) && !element.getAttribute('aria-label')) say('no name', element);
  }
  for (const element of document.querySelectorAll('a a, a button, button a, button button')) say('nested', element);
  for (const element of document.querySelectorAll('[tabindex]')) if (element.tabIndex > 0) say('tab order', element);
  for (const box of document.querySelectorAll('[role=region]')) {
    if (!box.getAttribute('aria-label')) say('region without name', box);
  }
  const ids = [...document.querySelectorAll('[id]')].map(element => element.id);
  for (const id of ids.filter((id, at) => ids.indexOf(id) !== at)) faults.push('id twice: ' + id);
  if (document.documentElement.lang !== 'en') faults.push('no language');
  if (!document.title) faults.push('no title');
  if (document.querySelectorAll('main').length !== 1) faults.push('main');
  return faults;
}"""
"""What a screen reader would have no words for, and what it would read twice or in another order."""

INKS = """() => {
  const seen = new Map();
  const opaque = colour => !/^rgba\\(.*, 0\\)$/.test(colour) && colour !== 'transparent';
  const under = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (opaque(colour)) return colour;
    }
    return getComputedStyle(document.body).backgroundColor;
  };
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || element.closest('defs, script, title, caption') || element.matches('.chart .bt')) continue;
    if (!element.getClientRects().length) continue;
    const style = getComputedStyle(element), drawn = element.closest('svg');
    const key = [drawn ? style.fill : style.color, under(drawn ?? element)].join('|');
    if (!seen.has(key)) seen.set(key, element.outerHTML.slice(0, 90));
  }
  return [...seen].map(([key, sample]) => [...key.split('|'), sample]);
}"""
"""Every pair of a text's colour and what is under it, with one element that has them."""

MOVING = """() => [...document.querySelectorAll('body, body *')].filter(element => {
  const style = getComputedStyle(element);
  return style.animationName !== 'none' || style.transitionDuration !== '0s' || style.scrollBehavior === 'smooth';
}).map(element => element.outerHTML.slice(0, 80))"""


def as_hex(css: str) -> str:
    """rgb(1, 2, 3) as #010203; anything translucent would need its backdrop and is refused."""
    channels = css.removeprefix("rgb(").removesuffix(")").split(",")
    assert len(channels) == 3, css
    return "#" + "".join(f"{int(channel):02x}" for channel in channels)


@contextmanager
def quiet_page(browser, address, width=1400, scheme="light", own=None):
    """Open a page at a width and in a colour scheme; fail on a console message, or a request beyond `own` addresses."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said, fetched = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(address)
    yield page
    page.close()
    assert said == []
    assert [url for url in fetched if not url.startswith((own or address, "data:"))] == []
