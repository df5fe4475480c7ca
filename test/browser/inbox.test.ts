import { afterAll, expect } from 'vitest'
import { testIn } from './browser.ts'
import { ask } from '../e2e/asking.ts'
import { script, until } from '../e2e/installation.ts'
import { outside } from '../e2e/outside.ts'

const out = await outside()
afterAll(() => out[Symbol.asyncDispose]())
const test = testIn({ config: 'spare_keeper: false\n', policy: `rules:\n${out.asks.join('\n')}\n` })

test('tools, calls to the network and money are asked for in one list, in exact words with every character seen', async ({
  it,
  enter,
}) => {
  const { page, go, lookTwice, wrong } = await enter('phone')
  const [tool, net, spend] = await Promise.all((['tool', 'http', 'spend'] as const).map((kind) => ask({ it, out }, kind)))
  const input = { file_path: '/workspace/pay\u202Eload.txt', content: 'a\u200bb \u001b[31m' }
  const odd = await it.api.createSession({
    body: {
      name: 'Odd \u202E',
      autonomy: 'restricted',
      prompt: { text: script([{ tool_use: 'Write', input }], [{ text: 'over' }]) },
    },
  })
  await it.event(odd.id, 0, ({ type }) => type === 'request.opened')
  await go('/inbox')
  const cardOf = (request: string) => page.locator(`[data-request=${request}]`)
  await cardOf(tool!.request).getByText('echo done >> happened', { exact: true }).waitFor()
  await cardOf(net!.request).getByText(`${out.host}:${out.ports.http}`).first().waitFor()
  await cardOf(spend!.request).getByText('rehearsal-1', { exact: true }).waitFor()
  const oddCard = page.getByRole('article').filter({ hasText: 'pay\\u{202e}load.txt' })
  await oddCard.getByText('a\\u{200b}b ␛[31m').waitFor()
  await oddCard.getByRole('link', { name: /Odd \\u\{202e\}/ }).waitFor()
  expect(await page.getByRole('article').count()).toBe(4)
  await lookTwice('phone-inbox-kinds')

  // What is put off stays open, behind all others.
  await cardOf(tool!.request).getByRole('button', { name: 'Not now' }).click()
  await cardOf(tool!.request).getByText('Deferred').waitFor()
  await until(async () => (await page.getByRole('article').last().getAttribute('data-request')) === tool!.request)
  for (const one of [net!, spend!, tool!]) {
    await cardOf(one.request).getByRole('button', { name: 'Allow once' }).click()
    await cardOf(one.request).waitFor({ state: 'detached' })
    await until(async () => (await one.times()) === 1)
  }
  await oddCard.getByRole('button', { name: 'Deny…' }).click()
  await oddCard.getByRole('textbox').fill('I cannot read this')
  await oddCard.getByRole('button', { name: 'Deny', exact: true }).click()
  await page.getByText('Nothing is waiting for you').waitFor()
  expect(wrong).toEqual([])
}, 180_000)

test('a session that holds secrets is marked in the list and in the inbox, and a long name hides neither that nor the time', async ({
  it,
  enter,
}) => {
  const { page, go, look, wrong } = await enter('phone')
  await it.api.putSecret({ params: { name: 'deploy-key' }, body: { value: 'not-to-be-seen-by-anybody', inside: true } })
  const name = `Deploys ${'on and '.repeat(20)}on`
  const { id } = await it.api.createSession({
    body: { name, provider: 'rehearsal', secrets: ['deploy-key'], prompt: { text: 'ask me whether to use tabs or spaces' } },
  })
  const { id: plain } = await it.api.createSession({ body: { name: 'Holds nothing' } })
  await it.event(id, 0, ({ type }) => type === 'request.opened')
  await go('/')
  const row = (session: string) => page.locator(`[data-row][href*="${session}"]`)
  await row(id).getByText('Secrets inside').waitFor()
  expect(await row(plain).innerText()).not.toContain('Secrets')
  await look('phone-secrets-row')

  await go('/inbox')
  const card = page.getByRole('article').filter({ hasText: name })
  const edge = (await card.boundingBox())!
  for (const part of [card.getByText('Secrets inside'), card.getByText(/^· (now|\d+ min)$/)]) {
    const box = (await part.boundingBox())!
    expect(box.x + box.width).toBeLessThan(edge.x + edge.width)
  }
  const shown = await card
    .getByText(name)
    .evaluate((one) => [getComputedStyle(one).textOverflow, one.scrollWidth > one.clientWidth])
  expect(shown).toEqual(['ellipsis', true])
  await look('phone-inbox-long-name')
  await it.api.stop({ params: { id } })
  expect(wrong).toEqual([])
}, 120_000)

test('a request becomes a rule that is shown first, with what it would have changed, and the next of its like is not asked', async ({
  it,
  enter,
}) => {
  const { page, go, lookTwice, wrong } = await enter('phone')
  const tag = async (name: string) => {
    const { id } = await it.api.createSession({
      body: { name: `Tags ${name}`, autonomy: 'supervised', prompt: { text: `run git push origin ${name}` } },
    })
    return id
  }
  const card = page.getByRole('article')
  await go('/inbox')
  await tag('one')
  await card.getByRole('button', { name: 'Allow once' }).click()
  await page.getByText('Nothing is waiting for you').waitFor()
  const second = await tag('two')
  await card.getByText('git push origin two', { exact: true }).waitFor()
  await card.getByText('Allow more than once').click()
  await card.getByText(/^allow Bash "git push/).waitFor()
  await card.getByText(/In the last 30 days|newly allowed/).waitFor()
  await lookTwice('phone-rule')
  await card.getByRole('button', { name: 'Make it a rule everywhere' }).click()
  await page.getByText('Nothing is waiting for you').waitFor()
  await it.event(second, 0, ({ type }) => type === 'turn.ended')
  const third = await tag('three')
  await it.event(third, 0, ({ type }) => type === 'turn.ended')
  expect((await it.log(third)).filter(({ type }) => type === 'request.opened')).toEqual([])
  await go('/settings/policy')
  await page
    .getByRole('region', { name: 'In force' })
    .getByText(/git push/)
    .first()
    .waitFor()
  expect(wrong).toEqual([])
}, 180_000)
