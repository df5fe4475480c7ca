import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { devices, openTab, testIn } from './browser.ts'
import type { SessionId } from '@anchorhold/protocol/ids'
import { root, until } from '../e2e/installation.ts'

/** Title, clipboard and a link, as a program may write them; each is for a terminal that does such things. */
const hostile =
  'printf "\\033]0;owned\\007\\033]52;c;b3duZWQ=\\007\\033]8;;https://evil.example/\\007link\\033]8;;\\007\\n"; echo still here\n'

/** Each begins with an empty one. */
const houses = { phone: testIn(), desktop: testIn() }

describe.each(['phone', 'desktop'] as const)('on a %s', (device) => {
  const test = houses[device]

  test('first start, login link, new session, streaming, an approval by tap, stop, diff, terminal, archive, and search finds it', async ({
    it,
    browser,
  }) => {
    const context = await browser.newContext(devices[device])
    const { page, go, look, wrong } = await openTab(context, it)
    const phone = device === 'phone'
    const tap = (name: string | RegExp, role: 'button' | 'link' | 'menuitem' | 'radio' = 'button') =>
      page
        .getByRole(role, { name, ...(typeof name === 'string' ? { exact: true } : {}) })
        .first()
        .click()
    const said = (text: string | RegExp) => page.getByText(text).first().waitFor()

    await go('/')
    await said('This device is not logged in')
    await look(`${device}-login`)

    const { url } = await it.api.createLoginLink()
    await page.getByRole('textbox', { name: /paste it/ }).fill(url)
    await tap('Log in')
    await said('No sessions yet')
    expect(page.url()).not.toContain('login=')
    await look(`${device}-empty`)

    for (const [name, text] of [
      ['Update dependencies', 'say all up to date'],
      ['Write the release notes', 'create notes.md saying soon, then say done'],
    ] as const)
      await it.api.createSession({ body: { name, prompt: { text }, budget_micros: 5_000_000 } })

    await go('/new')
    await look(`${device}-new`)
    await page.getByText('Options').click()
    await page.getByLabel('Budget').fill('2')
    await page
      .getByRole('textbox', { name: 'Prompt' })
      .fill(
        'think about names then create notes.md saying first ideas, then run `git init -q && git add -A && git -c user.name=a -c user.email=a@b.c commit -qm First`, then edit notes.md replacing first with better, then run cat notes.md, then ask me whether to use tabs or spaces',
      )
    await tap('Start')
    await page.waitForURL(/\/sessions\/ses_/)
    await tap(/tabs/, 'radio')
    await look(`${device}-question`)
    await tap('Answer')
    await said('Answered')
    await said('Done')
    await tap(/^Edited/)
    await said('better ideas')
    await look(`${device}-session`)

    // What streams is seen before it is whole, and a tap ends it.
    await page.getByRole('textbox', { name: 'Prompt' }).fill('count slowly to 500')
    await tap('Send')
    await page
      .getByRole('log')
      .getByText(/\b12\b/)
      .first()
      .waitFor()
    await look(`${device}-streaming`)
    await tap('Stop the turn')
    await said('Stopped')
    expect(await page.getByRole('log').getByText('499').count()).toBe(0)

    // What must be asked for is allowed where it is shown.
    const id = /ses_\w+/.exec(page.url())![0] as SessionId
    await it.api.changeSession({ params: { id }, body: { autonomy: 'restricted' } })
    await page.getByRole('textbox', { name: 'Prompt' }).fill('run echo it was allowed')
    await tap('Send')
    await said('The agent wants to run')
    await look(`${device}-approval`)
    await tap('Allow once')
    await until(async () =>
      (await it.log(id)).some((event) => event.type === 'tool.finished' && /allowed/.test(event.body.output)),
    )

    await tap('Changes', 'link')
    await tap(/notes\.md/)
    const diff = page.getByRole('region', { name: 'Changes of notes.md' })
    await diff.getByText('first ideas').waitFor()
    await diff.getByText('better ideas').waitFor()
    await look(`${device}-changes`)
    // There was no repository when it began, so all of the file is new; and the header knows of the branch by now.
    await tap('Start of the session')
    await said('since nothing was committed')
    expect(await diff.getByText('first ideas').count()).toBe(0)
    await page
      .getByTitle(/^On the branch/)
      .first()
      .waitFor()
    await page.getByRole('img', { name: /of the context left/ }).waitFor()

    await tap('Files', 'link')
    await tap(/notes\.md/)
    await page.getByRole('region', { name: 'Files' }).getByText('better ideas').first().waitFor()
    await look(`${device}-files`)
    const [saved] = await Promise.all([page.waitForEvent('download'), tap('Download', 'link')])
    expect([saved.suggestedFilename(), readFileSync(await saved.path(), 'utf8').trim()]).toEqual(['notes.md', 'better ideas'])

    await tap('Terminal', 'link')
    await said(/^A shell in the cell/)
    await page.keyboard.type('cat notes.md; printf "\\033[38;2;1;200;1mtrue colour\\033[0m\\n"; stty size\n')
    const screen = page.locator('.xterm-rows')
    await screen.getByText('better ideas', { exact: true }).first().waitFor()
    const coloured = screen.getByText('true colour', { exact: true }).last()
    const colourOf = (element: Element) => getComputedStyle(element).color
    expect(await coloured.evaluate(colourOf)).not.toBe(await screen.evaluate(colourOf))
    await look(`${device}-terminal`)
    // What a program asks of the terminal beyond its own screen is not done.
    await page.keyboard.type(hostile)
    await screen.getByText('still here', { exact: true }).first().waitFor()
    expect(await page.title()).not.toContain('owned')
    // It is found again, with all that was on it.
    await page.reload()
    await said(/^A shell in the cell/)
    await screen.getByText('still here', { exact: true }).first().waitFor()
    await tap('End the shell')
    await said('Closed by owner')

    await tap('Network', 'link')
    await said(/reaches what rules let through|Nothing has left/)
    await look(`${device}-network`)
    await tap('Cost', 'link')
    await said('By turn')
    await look(`${device}-cost`)
    await tap('Chat', 'link')

    // The inbox, by another session's question.
    await it.api.createSession({ body: { name: 'Second opinion', prompt: { text: 'ask me whether to go left or right' } } })
    if (phone) await tap('All sessions', 'link')
    await page.getByRole('region', { name: 'Needs you' }).waitFor()
    await look(`${device}-sessions`)
    await tap(/^Inbox/, 'link')
    await said('Shall I')
    await look(`${device}-inbox`)
    await tap(/left/, 'radio')
    await tap('Answer')
    await said('Nothing is waiting for you')

    await go('/usage')
    await said('By model')
    await look(`${device}-usage`)

    await go('/')
    await page
      .getByRole('link', { name: /think about names/ })
      .first()
      .click()
    await tap('Session')
    await tap('Archive…', 'menuitem')
    await look(`${device}-archive`)
    await tap('Archive')
    await page.waitForURL((to) => to.pathname === '/')
    await page.getByRole('link', { name: /think about names/ }).waitFor({ state: 'detached' })
    await tap('Archived')
    await page.getByRole('link', { name: /think about names/ }).waitFor()
    await page.getByRole('searchbox').fill('better')
    await page.locator('mark', { hasText: 'better' }).first().waitFor()
    await look(`${device}-search`)
    await page.locator('mark', { hasText: 'better' }).first().click()
    await page.waitForURL(/at=\d+/)
    await said('Archived: read-only')

    expect(wrong).toEqual([])
    await context.close()
  }, 480_000)

  test('what must be asked for is shown in its exact words, and allowed for a session, denied with a reason or put off', async ({
    it,
    enter,
  }) => {
    const { page, go, look, wrong } = await enter(device)
    const ask = (name: string, text: string) => it.api.createSession({ body: { name, autonomy: 'restricted', prompt: { text } } })
    const { id } = await ask('Wants to run', 'run echo one, then run echo one')
    await go('/inbox')
    const card = page.getByRole('article')
    await card.getByText('The agent wants to run').waitFor()
    expect(await card.getByText('echo one', { exact: true }).count()).toBe(1)
    await card.getByText('Allow more than once').click()
    await look(`${device}-request`)
    await card.getByRole('button', { name: /in this session$/ }).click()
    await page.getByText('Nothing is waiting for you').waitFor()
    await it.event(id, 0, ({ type }) => type === 'turn.ended')

    const { id: second } = await ask('Wants more', 'run echo two')
    await card.getByRole('button', { name: 'Not now' }).click()
    await card.getByText('Deferred').waitFor()
    await card.getByRole('button', { name: 'Deny…' }).click()
    await card.getByRole('textbox').fill('not today')
    await card.getByRole('button', { name: 'Deny', exact: true }).click()
    await page.getByText('Nothing is waiting for you').waitFor()
    const answers = (await it.log(second)).flatMap((event) => (event.type === 'request.answered' ? [event.body.answer] : []))
    expect(answers).toMatchObject([{ decision: 'deny', reason: 'not today' }])
    expect(wrong).toEqual([])
  }, 120_000)

  test('the panic button stops every agent after one more question', async ({ it, enter }) => {
    const { id } = await it.api.createSession({ body: { prompt: { text: 'count slowly to 500' } } })
    await it.event(id, 0, ({ type }) => type === 'turn.started')
    const { page, wrong } = await enter(device)
    await page.getByRole('button', { name: 'House' }).click()
    await page.getByRole('menuitem', { name: /Stop every agent/ }).click()
    expect((await it.api.getSession({ params: { id } })).state).toBe('working')
    await page.getByRole('button', { name: 'Stop everything' }).click()
    await page.getByText(/^Stopped: /).waitFor()
    expect((await it.api.getSession({ params: { id } })).state).toBe('stopped')
    await page.getByRole('button', { name: 'Close' }).click()
    await page.getByText(/stopped every agent/).waitFor()
    await page.getByRole('button', { name: 'Let agents run again' }).click()
    await page.getByText(/stopped every agent/).waitFor({ state: 'detached' })
    expect((await it.api.status()).panic).toBeNull()
    expect(wrong).toEqual([])
  })
})

test('what the first screen loads is at most 180 kB of JavaScript, compressed, and 210 kB with a session', () => {
  const web = join(root, 'dist/web')
  type Chunk = { readonly file: string; readonly isEntry?: boolean; readonly imports?: readonly string[] }
  const manifest = JSON.parse(readFileSync(join(web, '.vite/manifest.json'), 'utf8')) as Record<string, Chunk>
  const reached = (name: string): string[] => [name, ...(manifest[name]?.imports ?? []).flatMap(reached)]
  const sizeOf = (names: readonly string[]) =>
    [...new Set(names)].reduce((sum, name) => sum + gzipSync(readFileSync(join(web, manifest[name]!.file))).length, 0)
  const first = reached('index.html')
  expect(sizeOf(first)).toBeLessThanOrEqual(180_000)
  // Also with the screen of a session, which is where most people go next.
  expect(sizeOf([...first, ...reached('src/session/SessionPage.tsx')])).toBeLessThanOrEqual(210_000)
  expect(readdirSync(web).filter((name) => name.endsWith('.map'))).toEqual([])
})
