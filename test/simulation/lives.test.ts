import { lives, testSchedules } from './schedule.ts'

testSchedules(lives, 3600, 'lives of a session')
