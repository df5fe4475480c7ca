const html = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Anchorhold</title>
<link rel="stylesheet" href="/page.css">
<main>
  <h1>Anchorhold</h1>
  <p id="status" role="status">Logging in…</p>
  <ul id="sessions"></ul>
</main>
<script src="/page.js"></script>
</html>
`

const script = `'use strict'
const api = '/api/v1'
const status = document.getElementById('status')
const list = document.getElementById('sessions')
const rows = new Map()

async function call(path, options) {
  const response = await fetch(api + path, options)
  const body = await response.json()
  if (!response.ok) throw new Error(body.error.message + (body.error.hint ? ' ' + body.error.hint : ''))
  return body
}

// The secret is taken out of the address at once, so that it stays in no history.
async function logIn() {
  const secret = new URLSearchParams(location.hash.slice(1)).get('login')
  history.replaceState(null, '', '/')
  if (secret === null) return
  await call('/login', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ secret }) })
}

function show(session) {
  let row = rows.get(session.id)
  if (row === undefined) {
    row = document.createElement('li')
    for (const name of ['state', 'name', 'rung', 'said']) row.append(Object.assign(document.createElement('span'), { className: name }))
    rows.set(session.id, row)
    list.prepend(row)
  }
  row.dataset.state = session.state
  row.dataset.rung = session.rung
  row.querySelector('.state').textContent = session.state
  row.querySelector('.name').textContent = session.name
  row.querySelector('.rung').textContent = session.rung + (session.simulated ? ' · rehearsal' : '')
}

async function refresh(id) {
  show(await call('/sessions/' + id))
}

async function main() {
  await logIn()
  const about = await call('/status')
  status.textContent = 'Rung ' + about.rung + (about.rung_available ? '' : ' (not available)') + ' · provider ' + about.provider + (about.simulated ? ' (rehearsal: no model is asked)' : '')
  const { sessions } = await call('/sessions?limit=50')
  for (const session of sessions.reverse()) show(session)
  const newest = await call('/events?before=9007199254740991&limit=1')
  const after = newest.events.length === 0 ? 0 : newest.events[0].pos
  const stream = new EventSource(api + '/events?after=' + after)
  for (const type of ['session.created', 'session.state', 'session.changed']) {
    stream.addEventListener(type, (message) => void refresh(JSON.parse(message.data).session))
  }
  stream.addEventListener('text', (message) => {
    const event = JSON.parse(message.data)
    const row = rows.get(event.session)
    if (row !== undefined) row.querySelector('.said').textContent = event.body.text.slice(0, 300)
  })
}

main().catch((error) => {
  status.textContent = error.message
})
`

const style = `:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { margin: 0; padding: 1.5rem; max-width: 44rem; margin-inline: auto }
h1 { font-weight: 600; letter-spacing: -.02em; margin: 0 }
#status { opacity: .75 }
ul { list-style: none; padding: 0; display: grid; gap: .5rem }
li { border: 1px solid color-mix(in srgb, currentColor 20%, transparent); border-radius: .6rem; padding: .7rem .9rem; display: grid; grid-template-columns: auto 1fr auto; gap: .2rem .7rem; align-items: baseline }
.state { font-size: .8rem; font-variant: small-caps; border-radius: 1rem; padding: 0 .6rem; background: color-mix(in srgb, currentColor 12%, transparent) }
li[data-state=working] .state { background: #2b6cb0; color: #fff }
li[data-state=waiting] .state { background: #b7791f; color: #fff }
li[data-state=failed] .state, li[data-state=interrupted] .state, li[data-rung=none] .rung { background: #c53030; color: #fff; border-radius: 1rem; padding: 0 .6rem }
.name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
.rung { font-size: .8rem; opacity: .8 }
.said { grid-column: 1 / -1; opacity: .75; white-space: pre-wrap; overflow-wrap: anywhere }
`

/** The page that a login link opens: it exchanges the secret in its fragment for a cookie, and shows the sessions. */
export const page = {
  '/': { text: html, type: 'text/html; charset=utf-8' },
  '/page.js': { text: script, type: 'text/javascript; charset=utf-8' },
  '/page.css': { text: style, type: 'text/css; charset=utf-8' },
} as const
