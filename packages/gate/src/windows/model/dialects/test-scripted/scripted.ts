import type { Answer, Dialect, Meter } from '../../dialect.ts'

/** A dialect that no model speaks, for tests: a prompt is one text, and an answer one line of JSON that says how many tokens it took. It shows
 *  that another dialect is a folder, and a line in the table. */
export const scripted: Dialect = {
  name: 'scripted',
  speaks: 'the scripted API',
  serves: 'POST /say',
  endpoint: (pathname) => (pathname === '/say' ? { path: '/upstream/say', costs: true } : null),
  screen(raw, _endpoint, { denied }) {
    const body = asked(raw)
    if (body === null) return { ok: false, answer: { kind: 'malformed', message: 'This is no request' } }
    const against = body.tool === undefined ? null : (denied?.(body.tool) ?? null)
    if (against !== null) return { ok: false, answer: { kind: 'refused', message: `The policy denies the tool (${against})` } }
    const { model, say, most, live } = body
    const messages = [{ json: JSON.stringify(say), mediaChars: 0, imageTokens: 0, documents: 0 }]
    const head = JSON.stringify({ model, live })
    const shape = { thinkingTokens: 0, thinks: false, caching: 'none' as const }
    return { ok: true, request: { model, stream: live === true, maxTokens: most, ...shape, head, messages } }
  },
  remembered: (json) => json,
  outgoing: ({ request: { head, messages }, endpoint: { path }, key }, most) => ({
    path,
    headers: { 'content-type': 'application/json', ...(key === null ? {} : { 'x-scripted-key': key.secret }) },
    body: `${head.slice(0, -1)},"say":${messages[0]!.json},"most":${most}}`,
  }),
  agentOf: ({ 'x-scripted-agent': agent }) => (typeof agent === 'string' ? agent : undefined),
  meter: lastLine,
  passes: (header) => header === 'x-scripted',
  error: ({ kind, message }) => ({ status: statuses[kind], json: JSON.stringify({ no: kind, why: message }) }),
  probe: (model) => ({ path: '/upstream/say', headers: {}, body: JSON.stringify({ model, say: 'hi', most: 1 }) }),
  readProbe: (json) => ({ kind: json.includes('"took"') ? 'answer' : 'unknown', error: null }),
}

const statuses: Readonly<Record<Answer['kind'], number>> = {
  ...{ refused: 403, malformed: 400, unknown_path: 404, too_large: 413, unreachable: 502, overloaded: 503, failed: 500 },
}

type Asked = {
  readonly model: string
  readonly say: string
  readonly most: number
  readonly live?: boolean
  readonly tool?: string
}
function asked(raw: Uint8Array): Asked | null {
  try {
    const { model, say, most, live, tool } = JSON.parse(Buffer.from(raw).toString('utf8')) as Asked
    const isOne = typeof model === 'string' && typeof say === 'string' && Number.isSafeInteger(most) && most > 0
    return isOne ? { model, say, most, ...(live === true ? { live } : {}), ...(tool === undefined ? {} : { tool }) } : null
  } catch {
    return null
  }
}

function lastLine(): Meter {
  let text = ''
  return {
    feed: (chunk) => void (text += Buffer.from(chunk).toString('utf8')),
    read() {
      const took = /\{"took":\[(\d+),(\d+)\]\}\s*$/.exec(text)
      const [input, output] = took === null ? [0, Math.ceil(text.length / 2)] : [Number(took[1]), Number(took[2])]
      const used = { input, output, cache_read: 0, cache_write: 0 }
      return { used, whole: took !== null, started: took !== null, thought: false, saidNanos: null }
    },
  }
}
