import { expect, test } from 'vitest'
import { installation, outputsOf, script, textOf } from './installation.ts'

/** Run inside the cell with the node that the cell has: so many callers at a time at the model window, until all are refused. */
const callers = (count: number) => `
const { request } = require('node:http')
const body = JSON.stringify({ model: 'rehearsal-1', max_tokens: 1024, messages: [{ role: 'user', content: 'say hello' }] })
const call = () => new Promise((resolve) => {
  const one = request({ socketPath: process.env.ANTHROPIC_UNIX_SOCKET, path: '/v1/messages', method: 'POST', agent: false,
    headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) } },
    (answer) => { answer.resume(); answer.on('end', () => resolve(answer.statusCode)) })
  one.on('error', (error) => resolve(error.message))
  one.end(body)
})
const run = async () => { const seen = []; for (;;) { const status = await call(); seen.push(status); if (status !== 200) return seen } }
Promise.all(Array.from({ length: ${count} }, run)).then((all) => {
  const flat = all.flat()
  console.log('paid', flat.filter((one) => one === 200).length, 'refused', flat.filter((one) => one === 403).length, 'else', flat.filter((one) => one !== 200 && one !== 403).join())
})`

test('ten callers at once never bring a session above its budget; raising it lets the session go on', async () => {
  await using it = await installation()
  const cap = 50_000
  const command = `cat > /tmp/callers.cjs <<'END'\n${callers(10)}\nEND\n/opt/anchorhold/forwarder/node /tmp/callers.cjs`
  const text = script({ tool_use: 'Bash', input: { command } }, { text: 'never said' })
  const { id } = await it.api.createSession({ body: { tools: ['Bash'], budget_micros: cap, prompt: { text } } })
  const ended = await it.event(id, 0, ({ type }) => type === 'turn.ended')
  expect(ended).toMatchObject({ body: { reason: 'budget' } })
  const events = await it.log(id)
  expect(outputsOf(events)).toMatch(/paid [1-9]\d* refused 10 else$/)
  const spent = () => it.log(id).then((log) => log.flatMap((event) => (event.type === 'usage' ? [event.body.cost_nanos] : [])))
  const sum = (nanos: readonly number[]) => nanos.reduce((total, one) => total + one, 0)
  expect(sum(await spent())).toBeLessThanOrEqual(cap * 1000)
  expect(await it.api.getSession({ params: { id } })).toMatchObject({ cost_micros: Math.ceil(sum(await spent()) / 1000) })

  await it.api.changeSession({ params: { id }, body: { budget_micros: 1_000_000 } })
  const more = await it.turn(id, 'say thanks')
  expect(textOf(more)).toContain('thanks')
  expect(more.at(-1)).toMatchObject({ type: 'turn.ended', body: { reason: 'done' } })
  const nanos = sum(await spent())
  const micros = Math.ceil(nanos / 1000)
  expect(await it.api.getSession({ params: { id } })).toMatchObject({ cost_micros: micros })
  expect(await it.api.usage({ query: {} })).toMatchObject({
    total: { cost_micros: 0 },
    simulated: { cost_micros: micros },
    days: [{ cost_micros: micros, simulated: true }],
  })
  // Every way of summing up says the same, to the nano.
  const calls = (await spent()).length
  for (const by of ['session', 'group', 'day', 'model'] as const) {
    const { spending } = await it.api.spending({ query: { by } })
    expect({ by, sum: sum(spending.map(({ cost_nanos }) => cost_nanos)), calls: sum(spending.map((one) => one.calls)) }).toEqual({
      by,
      sum: nanos,
      calls,
    })
  }
  // What was spent stays spent when the session is gone.
  await it.api.archive({ params: { id } })
  await it.api.purgeSession({ params: { id }, body: { confirm: id } })
  expect(await it.api.usage({ query: {} })).toMatchObject({
    simulated: { cost_micros: micros, calls },
    removed: [{ cost_micros: micros, calls, simulated: true }],
    sessions: [],
  })
})

test('two sessions of a group never bring it above what it may spend; raising it at a door lets the group go on', async () => {
  await using it = await installation()
  const cap = 40_000
  await it.cli(['budget', 'group/docs', '0.04', '--per', 'day'])
  const command = `cat > /tmp/callers.cjs <<'END'\n${callers(5)}\nEND\n/opt/anchorhold/forwarder/node /tmp/callers.cjs`
  const text = script({ tool_use: 'Bash', input: { command } }, { text: 'never said' })
  const create = () => it.api.createSession({ body: { tools: ['Bash'], group: 'docs', prompt: { text } } })
  const ids = (await Promise.all([create(), create()])).map(({ id }) => id)
  for (const id of ids) await it.event(id, 0, ({ type }) => type === 'turn.ended')
  // Whoever came too late for the first call was refused it; the others made calls until nothing was left.
  expect((await Promise.all(ids.map((id) => it.log(id)))).map(outputsOf).join('\n')).toMatch(/paid [1-9]\d* refused 5 else$/m)
  const usage = async () =>
    (await Promise.all(ids.map((id) => it.log(id)))).flat().flatMap((event) => (event.type === 'usage' ? [event.body] : []))
  const sum = async () => (await usage()).reduce((total, { cost_nanos }) => total + cost_nanos, 0)
  expect(await sum()).toBeLessThanOrEqual(cap * 1000)
  const docs = async () => (await it.api.listBudgets()).budgets.find(({ node, simulated }) => node === 'group/docs' && simulated)!
  expect(await docs()).toMatchObject({ simulated: true, day: { cap_micros: cap, spent_micros: Math.ceil((await sum()) / 1000) } })
  await it.cli(['budget', 'group/docs', '0.001', '--per', 'day'])
  const poor = await it.run('say never', { group: 'docs' })
  expect(poor.events.findLast(({ type }) => type === 'turn.ended')).toMatchObject({
    body: { reason: 'budget', why: expect.stringContaining('the group "docs" for this day (UTC), $0.0010') as string },
  })
  await it.cli(['budget', 'group/docs', '5', '--per', 'day'])
  const { id: next } = await it.api.createSession({ body: { group: 'docs', prompt: { text: 'say thanks' } } })
  expect(await it.event(next, 0, ({ type }) => type === 'turn.ended')).toMatchObject({ body: { reason: 'done' } })
  ids.push(next)
  const { spending } = await it.api.spending({ query: { by: 'group' } })
  expect(spending).toMatchObject([{ key: 'docs', simulated: true, cost_nanos: await sum(), calls: (await usage()).length }])
  const { out } = await it.cli(['usage', '--by', 'group', '--csv'])
  expect(out.split('\n')[1]).toBe(
    `docs,,true,${(await usage()).length},${['input', 'output', 'cache_read', 'cache_write'].map((kind) => spending[0]!.tokens[kind as 'input']).join(',')},0.${String(await sum()).padStart(9, '0')}`,
  )
})
