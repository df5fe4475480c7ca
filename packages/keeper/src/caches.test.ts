import { lstatSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { linkCaches } from './caches.ts'

describe('linkCaches()', () => {
  let base: string
  let home: string
  beforeEach(() => {
    base = mkdtempSync(join(tmpdir(), 'ah-caches-'))
    home = join(base, 'home')
    mkdirSync(home)
  })
  afterEach(() => rmSync(base, { recursive: true }))

  test('shares what tools download, and nothing that they keep beside it', () => {
    linkCaches(home, { shared: true })
    expect(readlinkSync(join(home, '.npm/_cacache'))).toBe('/run/caches/npm')
    expect(readlinkSync(join(home, '.cargo/registry/cache'))).toBe('/run/caches/cargo')
    expect(readlinkSync(join(home, 'go/pkg/mod/cache/download'))).toBe('/run/caches/go')
    for (const own of ['.npm', '.cargo', '.cargo/registry', 'go/pkg/mod', 'go/pkg/mod/cache'])
      expect(lstatSync(join(home, own)).isDirectory()).toBe(true)
    linkCaches(home, { shared: true })
  })

  test('takes its own links back where nothing is shared, and no others', () => {
    linkCaches(home, { shared: true })
    rmSync(join(home, '.cargo/registry/cache'))
    symlinkSync('/elsewhere', join(home, '.cargo/registry/cache'))
    linkCaches(home, { shared: false })
    expect(readdirSync(join(home, '.npm'))).toEqual([])
    expect(readdirSync(join(home, 'go/pkg/mod/cache'))).toEqual([])
    expect(readlinkSync(join(home, '.cargo/registry/cache'))).toBe('/elsewhere')
  })

  test('is not led out of the home by a link that an agent has left there', () => {
    const outside = join(base, 'outside')
    mkdirSync(join(outside, 'registry'), { recursive: true })
    symlinkSync(outside, join(home, '.cargo'))
    symlinkSync(outside, join(home, '.npm'))
    linkCaches(home, { shared: true })
    expect(readdirSync(outside)).toEqual(['registry'])
    expect(readdirSync(join(outside, 'registry'))).toEqual([])
    symlinkSync('/run/caches/npm', join(outside, '_cacache'))
    linkCaches(home, { shared: false })
    expect(readlinkSync(join(outside, '_cacache'))).toBe('/run/caches/npm')
  })
})
