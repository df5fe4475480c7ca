import { asks, testSchedules } from './schedule.ts'

testSchedules(asks, 3000, 'stories of requests and their answers')
