// Plain prose that no task is about: its perplexity with and without an adapter shows what the
// adapter cost the model elsewhere. Written for this purpose.
#pragma once

#include <string_view>

namespace retort::loop {

inline constexpr std::string_view kNeutralText =
    "The market opened before sunrise, when the streets were still wet from the night. Farmers "
    "drove in "
    "from the valley with crates of apples, onions and late tomatoes, and the baker on the corner "
    "sold "
    "warm rolls through a window to anyone who could not wait. By seven o'clock the square was "
    "full of "
    "voices. An old man who had come every Saturday for forty years complained, as he always did, "
    "that "
    "the fish was better when he was young, and then bought two trout anyway.\n\n"
    "Along the river the boats were being made ready for the season. Their owners scraped the "
    "paint from "
    "the hulls, argued about the weather and lent each other tools that were not always returned. "
    "The "
    "ferry, which carried people and bicycles but no cars, crossed four times an hour. Children "
    "liked to "
    "stand at the front and feel the spray; their parents liked to sit inside, where there was "
    "coffee. "
    "When the wind came from the south you could hear the bells of the church in the next town, "
    "although "
    "it lay behind a hill and could not be seen.\n\n"
    "Most houses in the old quarter were built of grey stone and had small gardens at the back. "
    "People "
    "grew beans and roses there, and in one of them stood a pear tree that was said to be older "
    "than the "
    "house. Nobody knew who had planted it. In autumn the fruit fell faster than anyone could eat "
    "it, so "
    "the family put baskets by the gate with a sign that said: please take some. In a good year "
    "the "
    "baskets were empty by noon, and in the evening there was a row of jars on the step, filled "
    "with jam "
    "by neighbours who had wanted to say thank you.\n\n"
    "The library closed early on Saturdays, but the woman who ran it often stayed until dark. She "
    "was "
    "making a list of every book that mentioned the town, and had found more than two hundred. "
    "Some were "
    "dull reports about bridges and drains. Others were letters, or stories in which the town had "
    "another "
    "name but could be recognised by its river and its hill. She hoped to finish the list within a "
    "year, "
    "and she had hoped the same thing for the last three years.";

}  // namespace retort::loop
