import type { SessionId } from '@anchorhold/protocol/ids'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'
import { testIn } from './browser.ts'
import { type Installation, script, until } from '../e2e/installation.ts'

const test = testIn()

const logOf = (page: Page) => page.getByRole('log')
const said = (page: Page, text: string) => logOf(page).getByText(text, { exact: true }).first().waitFor()
const send = async (page: Page, text: string, how?: 'Steer' | 'Queue') => {
  await page.getByRole('textbox', { name: 'Prompt' }).fill(text)
  if (how !== undefined) await page.getByRole('button', { name: how, exact: true }).click()
  await page.getByRole('button', { name: 'Send' }).click()
}
const idIn = (page: Page) => /ses_\w+/.exec(page.url())![0] as SessionId
const given = async (it: Installation, id: SessionId) =>
  (await it.log(id)).flatMap((event) => (event.type === 'prompt' ? [event.body.text] : []))

/** A turn that goes on when the test says so. */
async function heldTurn(it: Installation, name: string) {
  const workspace = it.workspace()
  const wait = { tool_use: 'Bash', input: { command: 'echo waits; until test -e go; do sleep 0.1; done' } }
  const { id } = await it.api.createSession({
    body: { name, workspace, prompt: { text: script([wait], [{ text: 'went on' }]) } },
  })
  await it.event(id, 0, ({ type }) => type === 'tool.started')
  return { id, goOn: () => writeFileSync(join(workspace, 'go'), '') }
}

test('a turn is forked where it ended: the new session opens, knows what was said up to there, and leads back to it', async ({
  it,
  enter,
}) => {
  const { page, go, look, wrong } = await enter('phone')
  const { session } = await it.run('say the herring flies', { name: 'First of two' })
  await it.turn(session.id, 'say the crab walks')
  await go(`/sessions/${session.id}`)
  await said(page, 'the crab walks')
  await logOf(page).getByRole('button', { name: 'Fork from here' }).first().click()
  await page.waitForURL((url) => url.pathname.startsWith('/sessions/') && !url.pathname.endsWith(session.id))
  await page.getByText(/^Forked: the agent knows/).waitFor()
  await send(page, 'what did I ask you')
  await logOf(page)
    .getByText(/1\. say the herring flies|say the herring flies/)
    .last()
    .waitFor()
  await it.event(idIn(page), 0, ({ type }) => type === 'turn.ended')
  expect(await logOf(page).innerText()).not.toContain('crab')
  await look('phone-fork')
  await page.getByRole('link', { name: 'Read it there' }).click()
  await page.waitForURL((url) => url.pathname.endsWith(session.id) && url.searchParams.has('at'))
  await said(page, 'the herring flies')
  expect(wrong).toEqual([])
}, 120_000)

test('in the middle of a turn a prompt steers it or is queued until it is over, both say which, and what is queued can be taken back', async ({
  it,
  enter,
}) => {
  const { page, go, look, wrong } = await enter('phone')
  const { id, goOn } = await heldTurn(it, 'Busy')
  await go(`/sessions/${id}`)
  await send(page, 'say steered', 'Steer')
  await logOf(page).getByText('say steered', { exact: true }).waitFor()
  await send(page, 'say queued one', 'Queue')
  await send(page, 'say queued two', 'Queue')
  await send(page, 'say taken back', 'Queue')
  await logOf(page).getByText('Queued: sent when the turn ends').nth(2).waitFor()
  await look('phone-queued')
  await page.locator('[data-row-key]', { hasText: 'say taken back' }).getByRole('button', { name: 'Withdraw' }).click()
  await logOf(page).getByText('Withdrawn: “say taken back”').waitFor()
  // One that the agent was given before the tap arrived says so.
  await page.route(/\/prompts\//, async (route) => {
    goOn()
    await it.event(id, 0, (event) => event.type === 'prompt' && event.body.text === 'say queued one')
    await route.continue()
  })
  await page.locator('[data-row-key]', { hasText: 'say queued one' }).getByRole('button', { name: 'Withdraw' }).click()
  await logOf(page).getByText('Too late to withdraw it: the agent has it').waitFor()
  await said(page, 'queued two')
  await until(async () => (await it.api.getSession({ params: { id } })).state === 'ready')
  expect((await given(it, id)).slice(1)).toEqual(['say steered', 'say queued one', 'say queued two'])
  await said(page, 'steered')
  expect(
    await logOf(page)
      .getByText(/^Queued:|^On its way/)
      .count(),
  ).toBe(0)
  expect(wrong).toEqual([])
}, 120_000)

test('a plan is sent back with words that the agent reads, and carried out when it is approved', async ({ it, enter }) => {
  const { page, go, look, wrong } = await enter('phone')
  const workspace = it.workspace()
  const { id } = await it.api.createSession({
    body: { name: 'Plans first', workspace, plan: true, prompt: { text: 'create first.txt saying hi' } },
  })
  await go(`/sessions/${id}`)
  const card = page.getByRole('article').filter({ hasText: 'Plan for approval' }).last()
  await card.getByRole('button', { name: 'Not like this…' }).click()
  await look('phone-plan')
  await card.getByRole('textbox', { name: 'What should be different?' }).fill('call it second.txt')
  await card.getByRole('button', { name: 'Send back' }).click()
  await card.getByText('“call it second.txt”').waitFor()
  await it.event(id, 0, ({ type }) => type === 'turn.ended')
  expect(existsSync(join(workspace, 'first.txt'))).toBe(false)
  await send(page, 'plan to create second.txt saying hi')
  await page.getByRole('button', { name: 'Approve' }).click()
  await page.getByText(/^Approved/).waitFor()
  const second = join(workspace, 'second.txt')
  await until(() => existsSync(second) && readFileSync(second, 'utf8') === 'hi\n')
  expect(wrong).toEqual([])
}, 120_000)

test('the keys of a desktop lead everywhere, go through the list and end a turn', async ({ it, enter }) => {
  const { page, go, wrong, context } = await enter('desktop')
  await it.api.createSession({ body: { name: 'The other one' } })
  const { id } = await heldTurn(it, 'Ended by a key')
  const at = (path: string) => page.waitForURL((url) => url.pathname === path)
  await go('/audit')
  await page
    .getByRole('link', { name: /Ended by a key/ })
    .first()
    .waitFor()
  // Who types while a slow machine is on its way to another screen loses no letter.
  const devtools = await context.newCDPSession(page)
  await devtools.send('Emulation.setCPUThrottlingRate', { rate: 20 })
  await page.keyboard.press('u')
  await page.keyboard.press('/')
  await page.keyboard.type('nothing like it')
  expect(await page.getByRole('searchbox').inputValue()).toBe('nothing like it')
  await devtools.send('Emulation.setCPUThrottlingRate', { rate: 1 })
  await page.waitForURL((url) => url.searchParams.get('q') === 'nothing like it')
  await page.getByRole('button', { name: 'Clear the search' }).click()
  await page
    .getByRole('link', { name: /Ended by a key/ })
    .first()
    .waitFor()
  for (const [key, path] of [
    ['i', '/inbox'],
    ['u', '/usage'],
    ['s', '/settings'],
  ] as const) {
    await page.keyboard.press(key)
    await at(path)
  }
  await page.keyboard.press('j')
  await page.waitForURL(/\/sessions\//)
  const first = page.url()
  await page.locator('[data-row][aria-current=page]').waitFor()
  await page.keyboard.press('j')
  await page.waitForURL((url) => url.pathname.startsWith('/sessions/') && url.href !== first)
  await page.keyboard.press('k')
  await page.waitForURL(first)
  await go(`/sessions/${id}`)
  await page.getByRole('button', { name: 'Stop the turn' }).waitFor()
  await page.keyboard.press('Control+.')
  await it.event(id, 0, (event) => event.type === 'turn.ended' && event.body.reason === 'interrupted')
  // Enter sends, and Shift with it makes a line.
  await page.getByRole('textbox', { name: 'Prompt' }).click()
  await page.keyboard.type('say one')
  await page.keyboard.press('Shift+Enter')
  await page.keyboard.type('say two')
  await page.keyboard.press('Enter')
  await until(async () => (await given(it, id)).includes('say one\nsay two'))
  await page.getByRole('heading', { name: 'Ended by a key' }).click()
  await page.keyboard.press('n')
  await at('/new')
  expect(wrong).toEqual([])
}, 120_000)

test('an address that leads nowhere, and a session that is gone or somebody else’s, say so and lead back', async ({
  it,
  enter,
}) => {
  const { page, go, look, wrong, context } = await enter('phone')
  const { id } = await it.api.createSession({ body: { name: 'Not for Bob' } })
  const lost = async (path: string) => {
    await go(path)
    await page.getByRole('heading', { name: 'There is nothing here' }).waitFor()
    await page.getByRole('link', { name: 'All sessions' }).last().click()
    await page.waitForURL((url) => url.pathname === '/')
    await page.getByRole('searchbox').waitFor()
  }
  const nowhere = ['/nowhere', '/settings/nowhere', '/a/b/c', '/sessions/none', '/sessions/ses_0000000000000000']
  for (const path of nowhere) await lost(path)
  // It is looked for again when the connection is back, and what is said of it stays.
  await go(nowhere.at(-1)!)
  await page.getByRole('heading', { name: 'There is nothing here' }).waitFor()
  // Whoever else looks at the session meanwhile changes nothing about that.
  await it.api.createSession({ body: { prompt: { text: 'ask me whether to use tabs or spaces' } } })
  await page.getByText('One request waits for you').waitFor({ state: 'attached' })
  const asked = page.waitForResponse(/\/api\/v1\/sessions\/ses_0+$/)
  await page.evaluate(() => dispatchEvent(new Event('online')))
  await asked
  await page.getByRole('heading', { name: 'There is nothing here' }).waitFor()
  await go('/nowhere')
  await page.getByRole('heading', { name: 'There is nothing here' }).waitFor()
  await look('phone-lost')
  // Programs are told in their own way.
  const answer = await it.raw('/nowhere')
  expect([answer.status, answer.headers.get('content-type')]).toEqual([404, 'application/json'])
  expect((await it.raw('/nowhere', { headers: { accept: 'text/html' } })).status).toBe(404)

  await it.api.addUser({ body: { name: 'bob', role: 'member' } })
  const { url } = await it.api.inviteUser({ params: { name: 'bob' } })
  await context.clearCookies()
  await page.goto('about:blank')
  await go(`/${new URL(url).hash}`)
  await page.getByText('No sessions yet').waitFor()
  await lost(`/sessions/${id}`)
  expect(wrong.filter((what) => !what.startsWith('request about:blank'))).toEqual([])
}, 120_000)
