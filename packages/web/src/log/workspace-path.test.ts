import { expect, test } from 'vitest'
import { pictureInMarkdown, pictureInWorkspace, picturesMentioned } from './workspace-path.ts'

test.each([
  ['shot.png', 'shot.png'],
  ['./out/a.JPG', 'out/a.JPG'],
  ['/workspace/out/a.webp', 'out/a.webp'],
  ['/home/me/code/a.gif', 'a.gif'],
])('pictureInWorkspace() of %j is %j', (named, path) => {
  expect(pictureInWorkspace(named, '/home/me/code')).toBe(path)
})

test.each([
  'https://evil.example/a.png',
  '//evil.example/a.png',
  '\\\\evil.example\\a.png',
  'data:image/png;base64,AAAA.png',
  'javascript:1//a.png',
  'file:///etc/a.png',
  'blob:x/a.png',
  '/api/v1/panic/a.png',
  '/icon.png',
  '../a.png',
  'a/../../b.png',
  '/workspace/../a.png',
  '/workspace//evil.example/a.png',
  '/workspace/https://evil.example/a.png',
  'a.png?x=1.png',
  'a.png#.png',
  'a.svg',
  'a.txt',
  '',
])('pictureInWorkspace() finds no picture in %j', (named) => {
  expect(pictureInWorkspace(named, '/home/me/code')).toBeNull()
  expect(pictureInWorkspace(named, '/')).toBeNull()
})

test('pictureInMarkdown() reads an address as it is written there, and hides nothing behind it', () => {
  expect(pictureInMarkdown('out/my%20shot.png', '/x')).toBe('out/my shot.png')
  for (const address of ['%2e%2e/a.png', '%2Fetc/a.png', 'https%3A//evil.example/a.png', '%E0%A4%A.png'])
    expect(pictureInMarkdown(address, '/x')).toBeNull()
})

test('picturesMentioned() finds what was put in with a prompt, each once', () => {
  expect(picturesMentioned('see @uploads/a.png and @uploads/a.png, me@home.png @b.txt', '/x')).toEqual(['uploads/a.png'])
})
