import { expect, test } from 'vitest'
import { drafts } from './drafts.ts'

test('drafts() keeps what was written for each session, forgets what was sent, and tells whoever shows it', () => {
  const kept = new Map<string, string>()
  const made = drafts({
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, text) => void kept.set(key, text),
    removeItem: (key) => void kept.delete(key),
  })
  const seen: string[] = []
  const leave = made.subscribe(() => seen.push(made.read('ses_a')))
  made.write('ses_a', 'half')
  made.write('ses_b', 'other')
  made.write('ses_a', '')
  leave()
  made.write('ses_a', 'unheard')
  expect(seen).toEqual(['half', 'half', ''])
  expect([...kept.keys()]).toEqual(['anchorhold.draft.ses_b', 'anchorhold.draft.ses_a'])
})
