import type { SessionId } from '@anchorhold/protocol/ids'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { aPicture } from './a-picture.ts'
import { testIn } from './browser.ts'
import { script, until } from '../e2e/installation.ts'

const test = testIn()

const lines = (word: string) => Array.from({ length: 12 }, (_, n) => `${word} ${n}`).join('\n')

test('a conversation shows the useful part of what was done: pictures, exit codes, edits, a list and a sub-agent', async ({
  it,
  enter,
}) => {
  const workspace = it.workspace({ 'a.txt': lines('old') })
  writeFileSync(join(workspace, 'shot.png'), aPicture(480, 300))
  const { page, go, lookTwice, wrong } = await enter('phone')
  const { session } = await it.run(
    script(
      [{ tool_use: 'Read', input: { file_path: '/workspace/shot.png' } }],
      [{ tool_use: 'Bash', input: { command: 'echo broken; exit 3' } }],
      [{ tool_use: 'Read', input: { file_path: '/workspace/a.txt' } }],
      [{ tool_use: 'Edit', input: { file_path: '/workspace/a.txt', old_string: lines('old'), new_string: lines('new') } }],
      [{ text: 'It looks so: ![The window](shot.png) and not ![so](https://evil.example/shot.png)' }],
    ),
    { name: 'Look at the window', workspace },
  )
  await go(`/sessions/${session.id}`)
  const log = page.getByRole('region', { name: 'Conversation' })
  const picture = log.getByRole('img', { name: 'The window' })
  await picture.waitFor()
  await until(() => picture.evaluate((img: HTMLImageElement) => img.naturalWidth === 480))
  await log.getByText('not loaded from evil.example').waitFor()
  // Without a tap: how the command ended, and how the edit begins.
  await log.getByText('exit 3', { exact: true }).waitFor()
  await log.getByText('old 0', { exact: true }).waitFor()
  expect(await log.getByText('new 11').count()).toBe(0)
  await log.getByRole('button', { name: /more lines$/ }).click()
  await log.getByText('new 11', { exact: true }).waitFor()
  await lookTwice('phone-picture')
  await page.getByRole('link', { name: 'Files', exact: true }).click()
  await page.getByRole('button', { name: /^shot\.png/ }).click()
  await page.getByRole('img', { name: 'shot.png' }).waitFor()
  await lookTwice('phone-files-picture')

  await page.getByRole('link', { name: 'Chat', exact: true }).click()
  const send = async (text: string) => {
    await page.getByRole('textbox', { name: 'Prompt' }).fill(text)
    await page.getByRole('button', { name: 'Send' }).click()
  }
  const ended = async (id: SessionId, turns: number) =>
    until(async () => (await it.log(id)).filter(({ type }) => type === 'turn.ended').length >= turns)
  await send('write a todo list: look around, do the work, check the result')
  await ended(session.id, 2)
  const list = log.getByRole('region', { name: 'What the agent has to do' })
  await list.getByText('check the result').waitFor()
  expect(await list.count()).toBe(1)
  await send('use a sub-agent to run echo from below')
  await ended(session.id, 3)
  await log.getByRole('button', { name: /^Sub-agent/ }).click()
  await log.getByText('echo from below').first().waitFor()
  await lookTwice('phone-thread')
  expect(wrong).toEqual([])
}, 240_000)
