import { expect, test } from 'vitest'
import { frameBytesMax } from './link.ts'
import { limits, NewPrompt } from './sessions.ts'

test('a prompt that is accepted fits into one frame to its keeper, with all of its images', () => {
  const image = { media_type: 'image/png', data: 'A'.repeat(Math.floor(limits.imageBytes / 3) * 4) }
  const withImages = (count: number) => ({ text: 'look', images: Array.from({ length: count }, () => image) })
  const most = Math.floor(limits.imagesBytes / limits.imageBytes)
  expect(NewPrompt.safeParse(withImages(most)).success).toBe(true)
  expect(NewPrompt.safeParse(withImages(most + 1)).error?.issues[0]?.message).toBe(
    'the images of a prompt may have 32 MiB together',
  )
  // Each character of the text can take six in JSON.
  expect((limits.imagesBytes * 4) / 3 + 6 * limits.promptLength).toBeLessThan(0.9 * frameBytesMax)
})
