import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Images for the tests of machines, kept from run to run: what is in it follows from the recipe. Within reach of every user that a
 *  test becomes. */
export const testImages = join(tmpdir(), `anchorhold-test-images-${process.getuid?.()}`)
