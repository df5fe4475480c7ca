import fc from 'fast-check'
import { expect, test } from 'vitest'
import { uploadName } from './upload-name.ts'

test.each([
  ['shot.png', 'shot.png'],
  ['My Holiday (1).jpeg', 'My-Holiday-1-.jpeg'],
  ['../../etc/passwd', 'passwd'],
  ['C:\\temp\\notes.txt', 'notes.txt'],
  ['.bashrc', 'bashrc'],
  ['--output=x', 'output-x'],
  ['‮gnp.exe', 'gnp.exe'],
  ['…', 'file'],
  ['', 'file'],
])('uploadName() makes %j to %j', (given, name) => {
  expect(uploadName(given)).toBe(name)
})

test('uploadName() gives one plain name, whatever it is given', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 150 }), (given) => {
      const name = uploadName(given)
      expect(name).toMatch(/^[\p{L}\p{N}_][\p{L}\p{N}._-]{0,79}$/u)
    }),
  )
})
