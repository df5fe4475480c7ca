import { describe, expect, test } from 'vitest'
import { quoted, seatbeltProfile } from './profile.ts'

const plan = {
  reads: ['/Users/ada/Library/anchorhold/claude', '/Users/ada/.nvm/versions/node/v24'],
  writes: ['/Users/ada/code/clock', '/private/var/anchorhold/s/home', '/private/var/anchorhold/s/cell/tmp'],
  windows: '/private/var/anchorhold/s/windows',
  covers: [],
}

describe('seatbeltProfile()', () => {
  test('of a cell with nothing to hide', async () => {
    await expect(seatbeltProfile(plan)).toMatchFileSnapshot('golden/plain.sb')
  })

  test('of a cell without windows, which has no socket at all', async () => {
    const profile = seatbeltProfile({ ...plan, windows: null })
    expect(profile).not.toMatch(/network|socket/)
    await expect(profile).toMatchFileSnapshot('golden/no-windows.sb')
  })

  test('of a workspace with secrets, in whatever letters they are asked for', async () => {
    const covers = [
      { path: '/Users/ada/code/clock/.env', hidden: true },
      { path: '/Users/ada/code/clock/deep (1)/café/.ssh', hidden: true },
      { path: '/Users/ada/code/clock/.git/config', hidden: false },
    ]
    const profile = seatbeltProfile({ ...plan, covers })
    await expect(profile).toMatchFileSnapshot('golden/covers.sb')
    // What the profile's patterns match, by an engine that reads them the same way.
    const [, reading = ''] = /\(deny file-read\*\n([^]*?)\)\n\(/.exec(profile) ?? []
    const patterns = [...reading.matchAll(/\(regex "(.*)"\)/g)].map(([, text = '']) => new RegExp(text.replaceAll('\\\\', '\\')))
    const isHidden = (path: string) => patterns.some((pattern) => pattern.test(path))
    for (const path of ['.env', '.ENV', '.Env/x', 'deep (1)/café/.ssh/id', 'deep (1)/cafe\u0301/.SSH', 'DEEP (1)/CAFÉ/.ssh'])
      expect([path, isHidden(`/Users/ada/code/clock/${path}`)]).toEqual([path, true])
    for (const path of ['.envrc', 'x.env', 'aenv', '.git/config', 'deep (1)/café'])
      expect([path, isHidden(`/Users/ada/code/clock/${path}`)]).toEqual([path, false])
    expect(isHidden('/Users/ada/.env')).toBe(false)
  })

  test('of paths that would be something else in its language', async () => {
    const awkward = '/Users/ada/a "b") (allow default) \\ ; #|c|#/Zoe\u0308'
    const profile = seatbeltProfile({ ...plan, writes: [awkward], covers: [{ path: `${awkward}/.env`, hidden: true }] })
    await expect(profile).toMatchFileSnapshot('golden/awkward.sb')
    // With every string taken out, what is left are the words of the language and nothing of a path.
    expect(profile.replaceAll(/"(?:[^"\\]|\\.)*"/g, '')).not.toMatch(/Users|Zo|allow default/)
    expect(profile.match(/\(allow default\)/g)?.length).toBe(profile.match(/\\"b\\"\) \(allow default\)/g)?.length)
  })

  test('refuses what cannot be said in it', () => {
    for (const path of ['/a\nb', '/a\0b', '/\u007f', `/${'x'.repeat(1100)}`])
      expect(() => seatbeltProfile({ ...plan, reads: [path] })).toThrow('Cannot describe a seatbelt cell')
  })

  test('lets nothing that is written be moved away from what is said of it', () => {
    const covers = [{ path: '/Users/ada/code/clock/a/b/.env', hidden: true }]
    const [, unlinking = ''] = /\(deny file-write-unlink\n([^]*?)\)\n\(/.exec(seatbeltProfile({ ...plan, covers })) ?? []
    for (const path of plan.writes) expect(unlinking).toContain(`(literal "${path}")`)
    for (const path of ['/[aA]', '/[aA]/[bB]']) expect(unlinking).toContain(`(regex "^/Users/ada/code/clock${path}$")`)
  })
})

test('quoted() keeps quotes and backslashes as they are', () => {
  expect(quoted('/a"b\\c')).toBe('"/a\\"b\\\\c"')
})
