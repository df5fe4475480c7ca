import { chmodSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SessionId } from '@anchorhold/protocol/ids'
import { afterAll, describe, expect } from 'vitest'
import { testIn } from './browser.ts'
import { giveTo } from '../e2e/host.ts'
import { isRoot, someone } from '../e2e/installation.ts'

/** Passable: as root, cells run as other users. */
const base = realpathSync(mkdtempSync(join(tmpdir(), 'ah-folders-')))
const picture = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)

chmodSync(base, 0o711)
afterAll(() => rmSync(base, { recursive: true }))
const test = testIn({ config: `workspace_roots: [${join(base, 'src')}]\n` })

describe.each(['phone', 'desktop'] as const)('on a %s', (device) => {
  test('a folder is looked for, files and pictures are put into it, and a prompt completes commands and files', async ({
    it,
    enter,
  }) => {
    const name = `app-on-a-${device}`
    const folder = join(base, `src/mine/${name}`)
    mkdirSync(join(folder, '.git'), { recursive: true })
    writeFileSync(join(folder, 'reading-list.md'), 'a book\n')
    if (isRoot) giveTo(folder, someone)
    const { page, go, look, wrong } = await enter(device)
    const button = (name: string) => page.getByRole('button', { name, exact: true })
    const field = page.getByRole('textbox', { name: 'Prompt' })

    await go('/new')
    await button('Choose…').click()
    await button(join(base, 'src')).click()
    await button('mine').click()
    await button(`Git repository ${name}`).click()
    await look(`${device}-folders`)
    await button(`Use ${name}`).click()
    expect(await button(name).getAttribute('aria-pressed')).toBe('true')
    await field.fill('say here it is')
    await look(`${device}-new-folder`)
    await button('Start').click()
    await page.waitForURL(/\/sessions\/ses_/)
    const id = /ses_\w+/.exec(page.url())![0] as SessionId
    expect((await it.api.getSession({ params: { id } })).workspace).toBe(folder)
    await it.event(id, 0, ({ type }) => type === 'turn.ended')

    await page.getByLabel('Files to upload to the workspace').setInputFiles([
      { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('from the device\n') },
      { name: 'shot.png', mimeType: 'image/png', buffer: picture },
    ])
    // Each is named in the prompt by where it is now.
    await page.waitForFunction(() => document.querySelector('textarea')?.value === '@uploads/notes.txt @uploads/shot.png ')
    expect(readFileSync(join(folder, 'uploads/notes.txt'), 'utf8')).toBe('from the device\n')
    expect(readFileSync(join(folder, 'uploads/shot.png')).equals(picture)).toBe(true)
    await look(`${device}-uploads`)

    await field.fill('read @readi')
    const option = page.getByRole('option')
    await option.filter({ hasText: 'reading-list.md' }).waitFor()
    await look(`${device}-completion`)
    await field.press('Tab')
    expect(await field.inputValue()).toBe('read @reading-list.md ')
    // The caret is behind what was chosen before anything else can be typed, also in the middle of a text.
    await field.fill(' and say why')
    await field.press('Home')
    await page.keyboard.insertText('read @readi')
    await option.filter({ hasText: 'reading-list.md' }).waitFor()
    const chosen = await field.evaluate((it: HTMLTextAreaElement) => {
      it.dispatchEvent(new KeyboardEvent('keydown', { key: 'Tab', bubbles: true, cancelable: true }))
      return { text: it.value, before: it.value.slice(0, it.selectionStart) }
    })
    expect(chosen).toEqual({ text: 'read @reading-list.md and say why', before: 'read @reading-list.md ' })
    await field.fill('/comp')
    await option.filter({ hasText: '/compact' }).first().click()
    expect(await field.inputValue()).toBe('/compact ')
    await field.fill('run cat uploads/notes.txt')
    await button('Send').click()
    await page.getByText('from the device').first().waitFor()

    // It is among the first to be offered the next time.
    await go('/new')
    await button(name).first().waitFor()
    expect(wrong).toEqual([])
  }, 240_000)
})
