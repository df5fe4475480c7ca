import { Rung } from '@anchorhold/protocol/rungs'

/** Every rung takes longer than the one before: `npm run test:attacks` attacks what `npm test` has no time for, and
 *  `npm run test:machines` what is slow under emulation. */
const usual = process.env.MACHINES === undefined ? 'bwrap' : 'microvm'
export const attackedRungs = (process.env.ATTACK_RUNGS ?? usual).split(',').map((rung) => Rung.parse(rung))
