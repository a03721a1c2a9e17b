// Fetches the page again when the server says that there is something new, and swaps its content: the reader's place and focus stay.
'use strict';
(() => {
  const says = (text) => { const at = document.getElementById('live'); if (at) at.textContent = text; };
  let busy = false;
  const refresh = async () => {
    const at = document.activeElement;
    if (busy || document.hidden || (at && (at.tagName === 'INPUT' || at.tagName === 'SELECT'))) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { credentials: 'same-origin' });
      const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
      const fresh = page.getElementById('main');
      const path = at && at.closest && at.closest('main') ? at.getAttribute('href') : null;
      if (fresh) document.getElementById('main').replaceWith(fresh);
      if (path) { const again = document.querySelector('main a[href="' + CSS.escape(path) + '"]'); if (again) again.focus({ preventScroll: true }); }
      says('Live.');
    } catch (e) {
      says('The server does not answer.');
    } finally {
      busy = false;
    }
  };
  const events = new EventSource('/events');
  events.addEventListener('open', () => says('Live.'));
  events.addEventListener('error', () => says('Not connected; it tries again.'));
  events.addEventListener('news', refresh);
  document.addEventListener('visibilitychange', refresh);
})();
