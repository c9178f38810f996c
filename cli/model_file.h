#pragma once

#include <string>

/// Words that are meant as a file with a model.
namespace diptych::cli {

/// Throws FileError if the word is the name of a file that isn't there (with the nearest that is), or that can't be run
/// (with how to export what it holds). A word that is no file's name passes.
void check_model_file(const std::string& word);

}  // namespace diptych::cli
